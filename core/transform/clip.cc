#include "core/transform/clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/block_squares.h"
#include "core/ops/build.h"

namespace mstrain {
namespace {

void check_limit(double limit) {
  check(limit > 0, "clipping to a norm of {}, which is not positive", limit);
}

// The square root with derivative 0 instead of 0 · ∞ at 0.
Tensor safe_sqrt(const Tensor& x) {
  const Tensor zero = equal(x, 0);
  return where(zero, 0, sqrt(where(zero, 1, x)));
}

Tensor scaled(const Tensor& x, const Tensor& by) {
  const Tensor wide = widened(x);
  return cast(wide * cast(by, wide.dtype()), x.dtype());
}

}  // namespace

Tensor clip_factor(const Tensor& norm, double limit) {
  check_limit(limit);
  const Tensor finite = norm < std::numeric_limits<double>::infinity();
  return where(finite, limit / maximum(where(finite, norm, 1), limit), 1);
}

Tensor norm_of_squares(std::span<const Tensor> squares) {
  check(!squares.empty(), "global_norm: there are no tensors");
  const bool wide = std::any_of(squares.begin(), squares.end(),
                                [](const Tensor& x) { return x.dtype() == Dtype::kF64; });
  Tensor total;
  for (const Tensor& x : squares) {
    total = add_or_zero(total, cast(x, wide ? Dtype::kF64 : Dtype::kF32));
  }
  return safe_sqrt(total);
}

Tensor global_norm_of(std::span<const Tensor> tensors) {
  Tensors squares;
  for (const Tensor& x : tensors) {
    check(is_floating(x.dtype()), "global_norm: a tensor is {}, not floating-point",
          to_string(x.type()));
    squares.push_back(squares_by_blocks(x));
  }
  return norm_of_squares(squares);
}

Tensors clipped_by_value(Tensors tensors, double low, double high) {
  check(low <= high, "clip_by_value: [{}, {}] is empty", low, high);
  for (Tensor& x : tensors) {
    x = minimum(maximum(x, low), high);
  }
  return tensors;
}

Tensors clipped_by_norm(Tensors tensors, double limit) {
  for (Tensor& x : tensors) {
    x = scaled(x, clip_factor(global_norm_of(std::span(&x, 1)), limit));
  }
  return tensors;
}

Tensors clipped_by_global_norm(Tensors tensors, double limit, const Tensor& norm) {
  const Tensor by = clip_factor(norm, limit);
  for (Tensor& x : tensors) {
    x = scaled(x, by);
  }
  return tensors;
}

}  // namespace mstrain
