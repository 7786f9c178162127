// Elementwise operations: output element i depends on elements i of the inputs.
//
// Arguments broadcast as in NumPy; a plain number takes the dtype of the tensors beside it; dtypes are never promoted:
// mixed ones are an error that suggests cast().
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

// What a row of the table may say beyond values and derivatives.
struct SampleRange {
  double low = -2, high = 2;
};
struct ElementwiseTraits {
  SampleRange range[3] = {};  // of inputs
  double flops = 1;
  bool smooth = true;
  Precision precision = Precision::kFollows;
  Neutral neutral = {};
  AliasRule alias = nullptr;
  bool distinct = false;
  bool divides = false;     // by y, which is not 0 where integers are divided by a plain number
  uint32_t linear[2] = {};  // sets of inputs (bit i) in which it is linear together
};

// One row of the table (core/ops/elementwise_table.inc).
struct ElementwiseOp {
  std::string_view name;
  int arity = 1;
  DtypeClass dtypes = DtypeClass::kFloating;
  // d(result)/d(input i) times t, written with ops, so that every order exists. x: inputs, z: result.
  using Derivative = Tensor (*)(std::span<const Tensor> x, const Tensor& z, const Tensor& t);
  Derivative derivatives[3] = {};
  double (*evaluate)(const double* x) = nullptr;             // the oracle; null: integers only
  int64_t (*evaluate_integers)(const int64_t* x) = nullptr;  // null: floating types only
  ElementwiseTraits traits = {};
  enum class Kind : uint8_t { kNumbers, kComparison, kCondition, kSelection, kConversion };
  Kind kind = Kind::kNumbers;

  // The input whose type the operation works in.
  size_t worked_input() const { return kind == Kind::kSelection ? 1 : 0; }
};

// The row behind an operation; null for operations of other families.
const ElementwiseOp* elementwise_op(const OpDef& op);
// Its number, in the order of the table.
size_t elementwise_index(const OpDef& op);

std::span<const OpDef> elementwise_ops();

// The user's functions: those of the table, broadcasting their arguments.
#define UNARY(name, ...) Tensor name(const Arg& x);
#define BINARY(name, ...) Tensor name(const Arg& x, const Arg& y);
#define COMPARISON(name, ...) Tensor name(const Arg& x, const Arg& y);
#define PREDICATE(name, ...) Tensor name(const Arg& x);
#define INTEGER1(name, ...) Tensor name(const Arg& x);
#define INTEGER2(name, ...) Tensor name(const Arg& x, const Arg& y);
#define CONDITION1(name, ...) Tensor name(const Arg& x);
#define CONDITION2(name, ...) Tensor name(const Arg& x, const Arg& y);
#include "core/ops/elementwise_table.inc"

Tensor square(const Arg& x);
// x within [low, high], either of which may be a number or a tensor; the derivative is 0 outside and passes at the ends.
Tensor clip(const Arg& x, const Arg& low, const Arg& high);
// Numbers in place of NaN and of infinities, for which the largest finite numbers of the type stand unless given.
Tensor nan_to_num(const Arg& x, double nan = 0, std::optional<double> positive = {},
                  std::optional<double> negative = {});

inline Tensor operator-(const Arg& x) { return neg(x); }
inline Tensor operator+(const Arg& x, const Arg& y) { return add(x, y); }
inline Tensor operator-(const Arg& x, const Arg& y) { return sub(x, y); }
inline Tensor operator*(const Arg& x, const Arg& y) { return mul(x, y); }
inline Tensor operator/(const Arg& x, const Arg& y) { return div(x, y); }

// The variable holds another tensor afterwards; copies of the old one, and records of it, are as they were.
inline Tensor& operator+=(Tensor& x, const Arg& y) { return x = add({x, y.where()}, y); }
inline Tensor& operator-=(Tensor& x, const Arg& y) { return x = sub({x, y.where()}, y); }
inline Tensor& operator*=(Tensor& x, const Arg& y) { return x = mul({x, y.where()}, y); }
inline Tensor& operator/=(Tensor& x, const Arg& y) { return x = div({x, y.where()}, y); }

inline Tensor operator<(const Arg& x, const Arg& y) { return less(x, y); }
inline Tensor operator<=(const Arg& x, const Arg& y) { return less_equal(x, y); }
inline Tensor operator>(const Arg& x, const Arg& y) { return greater(x, y); }
inline Tensor operator>=(const Arg& x, const Arg& y) { return greater_equal(x, y); }
// x where `condition` (bool) holds, else y.
Tensor where(const Arg& condition, const Arg& x, const Arg& y);

// To another dtype: floats round to nearest even, floats to integers truncate towards zero and saturate (NaN: 0),
// integers wrap, bool is x != 0. The derivative passes between floating types and is zero otherwise.
Tensor cast(const Arg& x, Dtype dtype);

}  // namespace mstrain
