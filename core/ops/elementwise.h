// Elementwise operations: output element i depends on elements i of the inputs.
//
// Arguments broadcast as in NumPy; a plain number takes the dtype of the tensors beside it; dtypes are never promoted:
// mixed ones are an error that suggests cast().
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

// One row of the table: name, behaviour on scalars, derivatives, where to sample.
struct ElementwiseOp {
  std::string_view name;
  int arity = 1;
  DtypeClass dtypes = DtypeClass::kFloating;
  // d(result)/d(input i) times t, written with ops, so that every order exists. x: inputs, z: result.
  using Derivative = Tensor (*)(std::span<const Tensor> x, const Tensor& z, const Tensor& t);
  Derivative derivatives[3] = {};
  uint32_t linear = 0;  // bit i: linear in input i, and derivative i does not use it
  double (*evaluate)(const double* x) = nullptr;             // the oracle
  int64_t (*evaluate_integers)(const int64_t* x) = nullptr;  // null: floating types only
  struct Range {
    double low, high;
  } ranges[3] = {};
  bool comparison = false;  // the result is bool
  double flops = 1;
  bool smooth = true;
};

// The row behind an operation; null for operations of other families.
const ElementwiseOp* elementwise_op(const OpDef& op);

std::span<const OpDef> elementwise_ops();

Tensor neg(const Arg& x);
Tensor abs(const Arg& x);
Tensor sign(const Arg& x);
Tensor relu(const Arg& x);
Tensor floor(const Arg& x);
Tensor ceil(const Arg& x);
Tensor round(const Arg& x);  // halves to even
Tensor sqrt(const Arg& x);
Tensor rsqrt(const Arg& x);
Tensor exp(const Arg& x);
Tensor expm1(const Arg& x);
Tensor log(const Arg& x);
Tensor log1p(const Arg& x);
Tensor sin(const Arg& x);
Tensor cos(const Arg& x);
Tensor tanh(const Arg& x);
Tensor erf(const Arg& x);
Tensor sigmoid(const Arg& x);
Tensor softplus(const Arg& x);
Tensor silu(const Arg& x);
Tensor gelu(const Arg& x);       // x Φ(x)
Tensor gelu_tanh(const Arg& x);  // GPT-2's approximation
Tensor square(const Arg& x);
Tensor stop_gradient(const Arg& x);  // the value; derivative zero

Tensor add(const Arg& x, const Arg& y);
Tensor sub(const Arg& x, const Arg& y);
Tensor mul(const Arg& x, const Arg& y);
Tensor div(const Arg& x, const Arg& y);
Tensor minimum(const Arg& x, const Arg& y);  // ties: the derivative goes to x
Tensor maximum(const Arg& x, const Arg& y);
Tensor remainder(const Arg& x, const Arg& y);  // with the sign of y
Tensor pow(const Arg& x, const Arg& y);
Tensor gelu_grad(const Arg& x, const Arg& g);  // g gelu'(x)
Tensor gelu_tanh_grad(const Arg& x, const Arg& g);

inline Tensor operator-(const Arg& x) { return neg(x); }
inline Tensor operator+(const Arg& x, const Arg& y) { return add(x, y); }
inline Tensor operator-(const Arg& x, const Arg& y) { return sub(x, y); }
inline Tensor operator*(const Arg& x, const Arg& y) { return mul(x, y); }
inline Tensor operator/(const Arg& x, const Arg& y) { return div(x, y); }

// bool results.
Tensor equal(const Arg& x, const Arg& y);
Tensor not_equal(const Arg& x, const Arg& y);
Tensor less(const Arg& x, const Arg& y);
Tensor less_equal(const Arg& x, const Arg& y);
Tensor greater(const Arg& x, const Arg& y);
Tensor greater_equal(const Arg& x, const Arg& y);
inline Tensor operator<(const Arg& x, const Arg& y) { return less(x, y); }
inline Tensor operator<=(const Arg& x, const Arg& y) { return less_equal(x, y); }
inline Tensor operator>(const Arg& x, const Arg& y) { return greater(x, y); }
inline Tensor operator>=(const Arg& x, const Arg& y) { return greater_equal(x, y); }
// Of bool tensors.
Tensor logical_and(const Arg& x, const Arg& y);
Tensor logical_or(const Arg& x, const Arg& y);
Tensor logical_not(const Arg& x);

// x where `condition` (bool) holds, else y.
Tensor where(const Arg& condition, const Arg& x, const Arg& y);

// To another dtype: floats round to nearest even, floats to integers truncate towards zero and saturate (NaN: 0),
// integers wrap, bool is x != 0. The derivative passes between floating types and is zero otherwise.
Tensor cast(const Arg& x, Dtype dtype);

// x under a name of its own: a different node for each `tag`, with the derivative of the identity.
Tensor tagged_identity(const Tensor& x, int64_t tag);

}  // namespace mstrain
