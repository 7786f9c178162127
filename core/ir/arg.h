// How operations take their arguments: a tensor or a plain number, together with the line of the call.
#pragma once

#include "core/ir/tensor.h"

namespace mstrain {

// Converts implicitly from a Tensor or an arithmetic value, at the caller's line, so that every function and operator
// can report where it was called. A number takes the dtype of the tensors beside it. Lives only during the call.
class Arg {
 public:
  Arg(const Tensor& tensor,
      const SourceLocation& where = SourceLocation::current())  // NOLINT: implicit by design
      : tensor_(&tensor), where_(where) {}
  template <class T>
  requires std::is_arithmetic_v<T> Arg(
      T number,
      const SourceLocation& where = SourceLocation::current())  // NOLINT: implicit by design
      : number_(static_cast<double>(number)), where_(where) {}

  bool is_number() const { return tensor_ == nullptr; }
  double number() const { return number_; }
  // The tensor; throws for a number or an empty tensor.
  const Tensor& tensor() const;
  const SourceLocation& where() const { return where_; }
  operator const Tensor&() const { return tensor(); }

 private:
  const Tensor* tensor_ = nullptr;
  double number_ = 0;
  SourceLocation where_;
};

}  // namespace mstrain
