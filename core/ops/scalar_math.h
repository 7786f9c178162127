// The scalar functions behind elementwise operations: one definition for every backend, the rows of the table.
//
// double follows the C library and is the oracle. float is branch-free code that compilers turn into vector instructions;
// kErrorBounds says how exact it is. int64_t serves every integer type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/ops/scalar_float.h"

namespace mstrain::scalar {

// What rows are written with.

inline constexpr double kSqrt2OverPi = 0.7978845608028654;
inline constexpr double kInvSqrt2 = 0.7071067811865476;
inline constexpr double kInvSqrt2Pi = 0.3989422804014327;
inline constexpr double kGeluCubic = 0.044715;
inline constexpr double kQuickGelu = 1.702;  // Hendrycks & Gimpel 2016
inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr double kInvLn2 = 1.4426950408889634;
inline constexpr double kLn10 = 2.302585092994046;
// Klambauer et al. 2017.
inline constexpr double kSeluScale = 1.0507009873554805;
inline constexpr double kSeluAlpha = 1.6732632423543772;

// x as a type whose arithmetic wraps around.
template <class T>
auto modular(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(x);
  } else {
    return x;
  }
}

template <class T>
T squared(T x) {
  return T(modular(x) * modular(x));
}

template <class T>
T magnitude(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_fabsf(x);
  } else if constexpr (std::is_same_v<T, double>) {
    return __builtin_fabs(x);
  } else {
    return x < 0 ? T(-modular(x)) : x;
  }
}

template <class T>
T quotient(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    if (y == 0) {
      return 0;
    }
    if (y == -1) {
      return T(-modular(x));
    }
    const T q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
  } else {
    return x / y;
  }
}

template <class T>
T modulo(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return T(modular(x) - modular(quotient(x, y)) * modular(y));
  } else {
    const T r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  }
}

template <class T>
T floored_quotient(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return quotient(x, y);
  } else {
    // A negative quotient that is too small for a number lies below 0 as well.
    const T q = std::floor(x / y);
    const bool below =
        (x < 0) != (y < 0) && x != 0 && magnitude(y) != std::numeric_limits<T>::infinity();
    return q == 0 && below ? T(-1) : q;
  }
}

template <class T>
T with_sign(T x, T sign) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_copysignf(x, sign);
  } else {
    return __builtin_copysign(x, sign);
  }
}

// ln(e^x + e^y): the larger one, and ln(1 + e^-distance). Equal infinities have no distance.
template <class T>
T log_of_sum(T x, T y) {
  const T larger = x > y || x != x ? x : y;
  const T distance = x == y ? T(0) : magnitude(x - y);
  return larger + log1p(exp(-distance));
}

template <class T>
T angle_of(T y, T x) {
  return std::atan2(y, x);
}

template <class T>
T length_of(T x, T y) {
  return std::hypot(x, y);
}

template <class T>
T sine_over_angle(T x) {
  return x == 0 ? T(1) : sin(x) / x;
}

// Winitzki's closed form, good to 2e-3, and three steps of Halley's method on erf, which make it good to the last places of
// a double. The tails go through erfc, which does not cancel.
template <class T>
T inverse_erf(T value) {
  const double x = static_cast<double>(value);
  const double a = __builtin_fabs(x);
  if (!(a < 1)) {
    return static_cast<T>(a == 1 ? with_sign(std::numeric_limits<double>::infinity(), x)
                                 : std::numeric_limits<double>::quiet_NaN());
  }
  const double rest = 1 - a;
  const double w = -std::log(rest * (1 + a));
  constexpr double kA = 0.147;
  const double b = 2 / (3.14159265358979323846 * kA) - w / 2;
  double y = std::sqrt(std::sqrt(b * b + w / kA) - b);
  for (int i = 0; i < 3; ++i) {
    const double error = a < 0.5 ? std::erf(y) - a : rest - std::erfc(y);
    const double step = error / (1.1283791670955126 * std::exp(-y * y));
    y -= step / (1 + y * step);  // Halley
  }
  return static_cast<T>(with_sign(y, x));
}

inline int64_t shifted_left(int64_t x, int64_t places) {
  return places >= 0 && places < 64 ? static_cast<int64_t>(modular(x) << places) : 0;
}
inline int64_t shifted_right(int64_t x, int64_t places) {
  return x >> (places >= 0 && places < 64 ? places : 63);
}
// Of 0 and 0: 0.
inline int64_t common_divisor(int64_t x, int64_t y) {
  uint64_t a = modular(magnitude(x));
  uint64_t b = modular(magnitude(y));
  while (b != 0) {
    a = std::exchange(b, a % b);
  }
  return static_cast<int64_t>(a);
}
inline int64_t common_multiple(int64_t x, int64_t y) {
  const int64_t divisor = common_divisor(x, y);
  return divisor == 0 ? 0 : magnitude(static_cast<int64_t>(modular(x / divisor) * modular(y)));
}

template <class T>
T gelu_slope(T x, T g) {
  x = within_gelu(x);
  // One product in the sum, so that every compiled loop contracts it alike.
  return g * T(0.5) *
         ((T(1) + erf(x * T(kInvSqrt2))) + x * T(2 * kInvSqrt2Pi) * exp(T(-0.5) * x * x));
}

template <class T>
T gelu_tanh_slope(T x, T g) {
  x = within_gelu(x);
  const T x2 = x * x;
  const T t = tanh(T(kSqrt2OverPi) * (x + T(kGeluCubic) * x * x2));
  const T dt = (T(1) - t * t) * T(kSqrt2OverPi) * (T(1) + T(3 * kGeluCubic) * x2);
  return g * T(0.5) * (T(1) + t + x * dt);
}

// The rows.
#define UNARY(name, types, value, ...) \
  template <class T>                   \
  T name(T x) {                        \
    return value;                      \
  }
#define BINARY(name, types, value, ...) \
  template <class T>                    \
  T name(T x, T y) {                    \
    return value;                       \
  }
#define COMPARISON(name, value) \
  template <class T>            \
  bool name(T x, T y) {         \
    return value;               \
  }
#define PREDICATE(name, value) CONDITION1(name, value)
#define INTEGER1(name, value, ...) \
  inline int64_t name(int64_t x) { return value; }
#define INTEGER2(name, value, ...) \
  inline int64_t name(int64_t x, int64_t y) { return value; }
#define CONDITION1(name, value) \
  template <class T>            \
  bool name(T x) {              \
    return value;               \
  }
#define CONDITION2(name, value) COMPARISON(name, value)
#include "core/ops/elementwise_table.inc"

// How far the float functions may be from the exact value, in units in the last place: of the result, or of the larger
// of it and the argument where the result cancels (gelu of negative numbers). For |x| up to `within`; what overflows or
// is not a number is so exactly. Tested for the vector loops of every instruction set, over all exponents and signs.
struct ErrorBound {
  const char* name;
  double ulps;
  bool of_argument = false;
  float within = std::numeric_limits<float>::infinity();
};
inline constexpr ErrorBound kErrorBounds[] = {
    {"sqrt", 0.5},
    {"rsqrt", 1.5},
    {"exp", 1.0},
    {"expm1", 1.5},
    {"log", 1.0},
    {"log1p", 2.0},
    {"sin", 2.0},
    {"cos", 2.0},
    {"tanh", 1.5},
    {"exp2", 1.0},
    {"log2", 2.0},
    {"log10", 2.5},
    {"cbrt", 1.0},
    {"tan", 3.5},
    {"asin", 2.5},
    {"acos", 2.0},
    {"atan", 3.0},
    {"sinh", 3.0},
    {"cosh", 3.0},
    {"asinh", 2.5},
    {"acosh", 2.5},
    {"atanh", 2.5},
    {"erf", 1.5},
    {"sigmoid", 2.5},
    {"softplus", 2.0},
    {"silu", 3.5, false, 80.0F},
    {"gelu", 2.5, true},
    {"gelu_tanh", 8.0, false, 2.0F},
    {"gelu_tanh", 40.0, false, 5.0F},  // an error of the exponent's argument grows with it
    {"gelu_tanh", 2.5, true},
};

}  // namespace mstrain::scalar
