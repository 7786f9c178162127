#include "core/ops/statistics.h"

#include <limits>

#include "core/ops/accumulation.h"
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
