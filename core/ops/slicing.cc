#include "core/ops/slicing.h"

#include <array>
#include <limits>

#include "core/ops/build.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// The slice with ends in [0, n].
Slice normal_slice(const Slice& slice, int64_t n, int axis, const Tensor& x,
                   const SourceLocation& where) {
  const auto from_start = [&](int64_t end) { return end < 0 ? end + n : end; };
  const Slice result{from_start(slice.start),
                     slice.stop == Slice::kEnd ? n : from_start(slice.stop), slice.step};
  check(result.start >= 0 && result.stop <= n && result.start <= result.stop,
        "[]: elements {} to {} of dim {} of {}, at {}", slice.start,
        slice.stop == Slice::kEnd ? n : slice.stop, axis, to_string(x.shape()), to_string(where));
  check(slice.step >= 1, "[]: steps of {}, at {}; flip() turns a dim around", slice.step,
        to_string(where));
  return result;
}

Tensor part(const Tensor& x, std::span<const Index> indices) {
  const SourceLocation& where = indices[0].where();
  const auto count = static_cast<int>(indices.size());
  check(x.defined(), "[] of an empty tensor, at {}", to_string(where));
  check(count <= x.rank(), "[]: {} indices for {}, at {}", count, to_string(x.type()),
        to_string(where));
  Shape start = Shape::filled(x.rank(), 0);
  Shape stop = x.shape();
  Shape step = Shape::filled(x.rank(), 1);
  Shape kept;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t n = x.dim(i);
    if (i >= count) {
      kept.push_back(n);
      continue;
    }
    const Index& index = indices[static_cast<size_t>(i)];
    if (index.is_element()) {
      const int64_t element = index.element() < 0 ? index.element() + n : index.element();
      check(element >= 0 && element < n, "[]: element {} of dim {} of {}, at {}", index.element(),
            i, to_string(x.shape()), to_string(where));
      start[i] = element;
      stop[i] = element + 1;
    } else {
      const Slice slice = normal_slice(index.slice(), n, i, x, where);
      start[i] = slice.start;
      stop[i] = slice.stop;
      step[i] = slice.step;
      kept.push_back((slice.stop - slice.start + slice.step - 1) / slice.step);
    }
  }
  const bool whole = start == Shape::filled(x.rank(), 0) && stop == x.shape() &&
                     step == Shape::filled(x.rank(), 1);
  return reshape({whole ? x : slice({x, where}, start, stop, step), where}, kept);
}

}  // namespace

Tensor Tensor::operator[](const Index& index) const { return part(*this, std::span(&index, 1)); }

Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  return indices.size() == 0 ? *this : part(*this, std::span(indices.begin(), indices.size()));
}

Tensor roll(const Arg& x, int64_t shift, int axis) {
  const int at = axis_of(x, axis, "roll");
  const int64_t n = x.tensor().dim(at);
  const int64_t last = n == 0 ? 0 : ((shift % n) + n) % n;  // that come first
  if (last == 0) {
    return x.tensor();
  }
  return concat(std::array{slice(x, at, n - last, n), slice(x, at, 0, n - last)}, at, x.where());
}

}  // namespace mstrain
