// Parts of a tensor, written as in NumPy:
//
//   x[2], x[-1]               an element of the first dim, which disappears
//   x[Slice{1, 3}]            elements 1 and 2 of the first dim
//   x[{kAll, 0, Slice{-2}}]   all of the first, the first of the second, the last two of the third dim
//
// Dims that are not named stay whole. An index or an end outside of the dim is an error; slices are not cut to fit.
// Where strides allow it the part shares the tensor's memory; nothing is ever written through it.
#pragma once

#include <concepts>

#include "core/ir/arg.h"

namespace mstrain {

// Elements start, start + step, … before stop. Negative ends count from the dim's end.
struct Slice {
  static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  int64_t start = 0, stop = kEnd, step = 1;
};
inline constexpr Slice kAll{};

// What is taken of one dim, together with the line of the call.
class Index {
 public:
  Index(std::integral auto element, const SourceLocation& where = SourceLocation::current())
      : slice_{static_cast<int64_t>(element), Slice::kEnd, 1}, is_element_(true), where_(where) {}
  Index(const Slice& slice, const SourceLocation& where = SourceLocation::current())
      : slice_(slice), where_(where) {}

  bool is_element() const { return is_element_; }
  int64_t element() const { return slice_.start; }
  const Slice& slice() const { return slice_; }
  const SourceLocation& where() const { return where_; }

 private:
  Slice slice_;
  bool is_element_ = false;
  SourceLocation where_;
};

// Elements of `axis` move `shift` places towards its end, those that fall off come in at its start.
Tensor roll(const Arg& x, int64_t shift, int axis);

}  // namespace mstrain
