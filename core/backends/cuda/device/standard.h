// What core/ops/scalar_*.h use of the standard library, for NVRTC, which has none: <array>, <bit>, <cmath>,
// <cstdint>, <limits>, <type_traits> and <utility> are this file there.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
static_assert(sizeof(int64_t) == 8, "kernels are compiled for 64 bits");

#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt sqrt
#define __builtin_copysignf copysignf
#define __builtin_copysign copysign

namespace std {

// clang-format off
using ::abs; using ::sqrt; using ::cbrt; using ::hypot; using ::pow; using ::fmod;
using ::floor; using ::ceil; using ::nearbyint; using ::trunc;
using ::exp; using ::expm1; using ::exp2; using ::log; using ::log1p; using ::log2; using ::log10;
using ::sin; using ::cos; using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2;
using ::sinh; using ::cosh; using ::tanh; using ::asinh; using ::acosh; using ::atanh;
using ::erf; using ::erfc;
// clang-format on

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000); }
  static constexpr float max() { return 0x1.fffffep127F; }
  static constexpr float lowest() { return -max(); }
};
template <>
struct numeric_limits<double> {
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000); }
  static constexpr double max() { return 0x1.fffffffffffffp1023; }
  static constexpr double lowest() { return -max(); }
};
template <class T, T least, T most>
struct integer_limits {
  static constexpr T min() { return least; }
  static constexpr T max() { return most; }
};
template <>
struct numeric_limits<int8_t> : integer_limits<int8_t, -128, 127> {};
template <>
struct numeric_limits<uint8_t> : integer_limits<uint8_t, 0, 255> {};
template <>
struct numeric_limits<uint16_t> : integer_limits<uint16_t, 0, 65535> {};
template <>
struct numeric_limits<int32_t> : integer_limits<int32_t, -2147483647 - 1, 2147483647> {};
template <>
struct numeric_limits<uint32_t> : integer_limits<uint32_t, 0, 4294967295U> {};
template <>
struct numeric_limits<int64_t>
    : integer_limits<int64_t, -9223372036854775807L - 1, 9223372036854775807L> {};

template <class T, class U>
inline constexpr bool is_same_v = false;
template <class T>
inline constexpr bool is_same_v<T, T> = true;
template <class T>
inline constexpr bool is_integral_v = !is_same_v<T, float> && !is_same_v<T, double>;

template <class T>
struct unsigned_of;
template <>
struct unsigned_of<int64_t> {
  using type = uint64_t;
};
template <class T>
using make_unsigned_t = typename unsigned_of<T>::type;

template <class T, size_t n>
struct array {
  T at[n];
  constexpr T& operator[](size_t i) { return at[i]; }
  constexpr const T& operator[](size_t i) const { return at[i]; }
};

template <class To, class From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

template <class T, class U>
T exchange(T& object, U value) {
  T before = object;
  object = value;
  return before;
}

}  // namespace std
