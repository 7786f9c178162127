#include "core/transform/clip.h"

#include <cmath>
#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/reduce.h"

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

Tensor global_norm_of(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "global_norm: there are no tensors");
  Dtype dtype = Dtype::kF32;
  for (const Tensor& x : tensors) {
    check(is_floating(x.dtype()), "global_norm: a tensor is {}, not floating-point",
          to_string(x.type()));
    dtype = x.dtype() == Dtype::kF64 ? Dtype::kF64 : dtype;
  }
  Tensor total;
  for (const Tensor& x : tensors) {
    total = add_or_zero(total, cast(sum_squares(x), dtype));
  }
  return safe_sqrt(total);
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
