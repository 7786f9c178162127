#include "core/ops/statistics.h"

#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

const Tensor& floating(std::string_view op, const Arg& x) {
  check(is_floating(x.tensor().dtype()), "{}: is not defined for {}, at {}; convert it with cast()",
        op, name_of(x.tensor().dtype()), to_string(x.where()));
  return x.tensor();
}

// How many elements of x are reduced to one.
double count_of(const Tensor& x, const Shape& axes) {
  int64_t count = axes.rank() == 0 ? x.elements() : 1;
  for (int64_t axis : axes) {
    count *= x.dim(static_cast<int>(axis));
  }
  return static_cast<double>(count);
}

Tensor wide_mean(const Tensor& x, const Shape& axes, bool keep_dims) {
  return sum(x, axes, keep_dims) / count_of(x, axes);
}

}  // namespace

Tensor mean(const Arg& x, const Shape& axes, bool keep_dims) {
  const Tensor& given = floating("mean", x);
  return cast(wide_mean(widened(given), axes, keep_dims), given.dtype());
}

Tensor variance(const Arg& x, const Shape& axes, bool keep_dims, double correction) {
  const Tensor& given = floating("variance", x);
  const Tensor wide = widened(given);
  const Tensor squares = sum(square(wide - wide_mean(wide, axes, true)), axes, keep_dims);
  return cast(squares / (count_of(given, axes) - correction), given.dtype());
}

Tensor standard_deviation(const Arg& x, const Shape& axes, bool keep_dims, double correction) {
  return sqrt(variance(x, axes, keep_dims, correction));
}

Tensor quantile(const Arg& x, double q, int axis, bool keep_dims) {
  const Tensor& given = floating("quantile", x);
  const int at = axis_of(x, axis, "quantile");
  const int64_t n = given.dim(at);
  check(q >= 0 && q <= 1, "quantile: a share of {}, at {}", q, to_string(x.where()));
  check(n > 0, "quantile: dim {} of {} is empty, at {}", at, to_string(given.shape()),
        to_string(x.where()));
  const Tensor sorted = widened(sort(x, at));
  const double place = q * static_cast<double>(n - 1);
  const auto low = static_cast<int64_t>(place);
  const double share = place - static_cast<double>(low);
  const Tensor below = slice(sorted, at, low, low + 1);
  const Tensor above = slice(sorted, at, std::min(low + 1, n - 1), std::min(low + 1, n - 1) + 1);
  const Tensor between = share == 0 ? below : below + share * (above - below);
  // NaN comes last.
  const Tensor last = slice(sorted, at, n - 1, n);
  const Tensor result = cast(where(isnan(last), last, between), given.dtype());
  return keep_dims ? result : squeeze(result, at);
}

Tensor median(const Arg& x, int axis, bool keep_dims) { return quantile(x, 0.5, axis, keep_dims); }

Tensor logsumexp(const Arg& x, const Shape& axes, bool keep_dims) {
  const Tensor& given = floating("logsumexp", x);
  const Tensor wide = widened(given);
  const Tensor greatest = stop_gradient(max(wide, axes, true));
  // An infinite maximum would make inf - inf; its exponential is right without a shift.
  const Tensor shift =
      where(less(abs(greatest), std::numeric_limits<double>::infinity()), greatest, 0);
  const Tensor total = log(sum(exp(wide - shift), axes, keep_dims));
  return cast(total + reshape(shift, total.shape()), given.dtype());
}

}  // namespace mstrain
