// The scalar functions behind elementwise operations: one definition for every backend, the rows of the table.
//
// double follows the C library and is the oracle. float is branch-free code that compilers turn into vector instructions;
// kErrorBounds says how exact it is. int64_t serves every integer type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/ops/scalar_float.h"

namespace mstrain::scalar {

// What rows are written with.

inline constexpr double kSqrt2OverPi = 0.7978845608028654;
inline constexpr double kInvSqrt2 = 0.7071067811865476;
inline constexpr double kInvSqrt2Pi = 0.3989422804014327;
inline constexpr double kGeluCubic = 0.044715;

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
