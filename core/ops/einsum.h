// Sums of products written with index letters: dot_general for each two operands, and sum and transpose for what these
// leave.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

// einsum("bthd,bshd->bhts", {q, k}): each operand's dims are named by letters (a-z, A-Z); the
// result has the letters after the arrow, and sums over all others. A letter stands for one size
// wherever it is. A letter may not be repeated within one operand or the result. Several operands
// are contracted from left to right.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands,
              const SourceLocation& where = SourceLocation::current());
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     const SourceLocation& where = SourceLocation::current()) {
  return einsum(equation, std::span(operands.begin(), operands.size()), where);
}

}  // namespace mstrain
