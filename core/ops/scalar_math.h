// The scalar functions behind elementwise operations: one definition for every backend.
//
// double follows the C library and is the oracle. float is branch-free polynomial code that compilers turn into vector
// instructions; kErrorBounds says how exact it is. int64_t serves every integer type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/ops/scalar_float.h"

namespace mstrain::scalar {

template <class T>
T neg(T x) {
  return static_cast<T>(-x);
}
template <>
inline int64_t neg(int64_t x) {
  return static_cast<int64_t>(-static_cast<uint64_t>(x));
}
template <class T>
T abs(T x) {
  return x < 0 ? neg(x) : x;
}
template <>
inline float abs(float x) {
  return __builtin_fabsf(x);
}
template <>
inline double abs(double x) {
  return __builtin_fabs(x);
}
// -1, 0, 1; NaN stays NaN.
template <class T>
T sign(T x) {
  return x > 0 ? T(1) : (x < 0 ? T(-1) : x);
}
template <class T>
T identity(T x) {
  return x;
}
template <class T>
T relu(T x) {
  return x < 0 ? T(0) : x;
}

template <class T>
T floor(T x) {
  return std::floor(x);
}
template <class T>
T ceil(T x) {
  return std::ceil(x);
}
template <class T>
T round(T x) {
  return std::nearbyint(x);
}  // halves to even
template <class T>
T sqrt(T x) {
  return std::sqrt(x);
}
template <class T>
T rsqrt(T x) {
  return T(1) / std::sqrt(x);
}
template <class T>
T exp(T x) {
  return std::exp(x);
}
template <class T>
T expm1(T x) {
  return std::expm1(x);
}
template <class T>
T log(T x) {
  return std::log(x);
}
template <class T>
T log1p(T x) {
  return std::log1p(x);
}
template <class T>
T sin(T x) {
  return std::sin(x);
}
template <class T>
T cos(T x) {
  return std::cos(x);
}
template <class T>
T tanh(T x) {
  return std::tanh(x);
}
template <class T>
T erf(T x) {
  return std::erf(x);
}
template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
// log(1 + e^x) without overflow.
template <class T>
T softplus(T x) {
  return relu(x) + log1p(exp(-abs(x)));
}
template <class T>
T silu(T x) {
  return x * sigmoid(x);
}

inline constexpr double kSqrt2OverPi = 0.7978845608028654;
inline constexpr double kInvSqrt2 = 0.7071067811865476;
inline constexpr double kInvSqrt2Pi = 0.3989422804014327;
inline constexpr double kGeluCubic = 0.044715;

// x Φ(x).
template <class T>
T gelu(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(kInvSqrt2)));
}
// Its tanh approximation (Hendrycks & Gimpel 2016; GPT-2's gelu_new).
template <class T>
T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + tanh(T(kSqrt2OverPi) * (x + T(kGeluCubic) * x * x * x)));
}
// g times the derivative at x.
template <class T>
T gelu_grad(T x, T g) {
  x = within_gelu(x);
  // One product in the sum, so that every compiled loop contracts it alike.
  return g * T(0.5) *
         ((T(1) + erf(x * T(kInvSqrt2))) + x * T(2 * kInvSqrt2Pi) * exp(T(-0.5) * x * x));
}
template <class T>
T gelu_tanh_grad(T x, T g) {
  x = within_gelu(x);
  const T x2 = x * x;
  const T t = tanh(T(kSqrt2OverPi) * (x + T(kGeluCubic) * x * x2));
  const T dt = (T(1) - t * t) * T(kSqrt2OverPi) * (T(1) + T(3 * kGeluCubic) * x2);
  return g * T(0.5) * (T(1) + t + x * dt);
}

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
    {"erf", 1.5},
    {"sigmoid", 2.5},
    {"softplus", 2.0},
    {"silu", 3.5, false, 80.0F},
    {"gelu", 2.5, true},
    {"gelu_tanh", 8.0, false, 2.0F},
    {"gelu_tanh", 40.0, false, 5.0F},  // an error of the exponent's argument grows with it
    {"gelu_tanh", 2.5, true},
};

// Integers wrap around, and divide towards minus infinity; a division by zero gives zero.
template <class T>
T add(T x, T y) {
  return x + y;
}
template <class T>
T sub(T x, T y) {
  return x - y;
}
template <class T>
T mul(T x, T y) {
  return x * y;
}
template <class T>
T div(T x, T y) {
  return x / y;
}
// NaN where either is NaN.
template <class T>
T minimum(T x, T y) {
  return x < y || x != x ? x : y;
}
template <class T>
T maximum(T x, T y) {
  return x > y || x != x ? x : y;
}
template <class T>
T pow(T x, T y) {
  return std::pow(x, y);
}
// x - floor(x / y) y: the sign of y.
template <class T>
T remainder(T x, T y) {
  const T r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

template <>
inline int64_t add(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}
template <>
inline int64_t sub(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
}
template <>
inline int64_t mul(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
}
template <>
inline int64_t div(int64_t x, int64_t y) {
  if (y == 0) {
    return 0;
  }
  if (y == -1) {
    return neg(x);
  }
  const int64_t q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
template <>
inline int64_t remainder(int64_t x, int64_t y) {
  return sub(x, mul(div(x, y), y));
}

template <class T>
bool equal(T x, T y) {
  return x == y;
}
template <class T>
bool not_equal(T x, T y) {
  return x != y;
}
template <class T>
bool less(T x, T y) {
  return x < y;
}
template <class T>
bool less_equal(T x, T y) {
  return x <= y;
}
template <class T>
bool greater(T x, T y) {
  return x > y;
}
template <class T>
bool greater_equal(T x, T y) {
  return x >= y;
}

}  // namespace mstrain::scalar

// The operations by the kernels that they need: F(name) for each.
#define MSTRAIN_UNARY_NUMERIC(F) F(neg) F(abs) F(sign) F(identity) F(relu)
// clang-format off
#define MSTRAIN_UNARY_FLOATING(F)                                                          \
  F(floor)                                                                                 \
  F(ceil)                                                                                  \
  F(round)                                                                                 \
  F(sqrt) F(rsqrt) F(exp) F(expm1) F(log) F(log1p) F(sin) F(cos) F(tanh) F(erf) F(sigmoid) \
      F(softplus) F(silu) F(gelu) F(gelu_tanh)
// clang-format on
#define MSTRAIN_BINARY_NUMERIC(F) F(add) F(sub) F(mul) F(div) F(minimum) F(maximum) F(remainder)
#define MSTRAIN_BINARY_FLOATING(F) F(pow) F(gelu_grad) F(gelu_tanh_grad)
#define MSTRAIN_COMPARISONS(F) \
  F(equal) F(not_equal) F(less) F(less_equal) F(greater) F(greater_equal)
