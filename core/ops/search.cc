#include "core/ops/search.h"

#include <array>
#include <cmath>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/index_common.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  attrs.flag("after_equals");
  const Shape& sorted = in[0].shape;
  const Shape& values = in[1].shape;
  if (sorted.rank() == 0 || sorted.rank() != values.rank() ||
      !(sorted.without(sorted.rank() - 1) == values.without(values.rank() - 1))) {
    throw ShapeError(fmt::format("rows {} and values {} differ in more than the last dim",
                                 to_string(sorted), to_string(values)));
  }
  expect_same_dtype(in[0], in[1]);
  if (in[0].dtype == Dtype::kBool) {
    throw ShapeError("is not defined for bool", "convert it with cast()");
  }
  return {{Dtype::kI32, values}};
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost cost = elementwise_cost(in, out, 0);
  cost.flops = static_cast<double>(in[1].elements()) *
               std::log2(1 + static_cast<double>(in[0].shape.back()));
  return cost;
}

// Rows of one number are sorted; values lie before, at and after it.
std::vector<Sample> samples(Dtype t) {
  const auto sample = [&](const Shape& sorted, const Shape& values, bool after_equals) {
    return Sample{{{{t, sorted}, 1, 1}, {{t, values}, 0, 3}}, {{"after_equals", after_equals}}};
  };
  return {sample({5}, {7}, false),        sample({8}, {7}, true),
          sample({3, 1}, {3, 17}, false), sample({2, 2, 6}, {2, 2, 5}, true),
          sample({0}, {3}, false),        sample({4}, {0}, true)};
}

constexpr OpDef kDefs[] = {{.name = "searchsorted",
                            .kind = OpKind::kIndex,
                            .dtypes = DtypeClass::kNumeric,
                            .infer = infer,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = layout::leading<1>,
                            .samples = samples,
                            .smooth = false}};

}  // namespace

std::span<const OpDef> search_ops() { return kDefs; }

Tensor searchsorted(const Arg& sorted, const Arg& values, bool after_equals) {
  const Tensor& rows = sorted.tensor();
  const Tensor& wanted = values.tensor();
  const Attrs attrs{{"after_equals", after_equals}};
  if (rows.rank() != 1 || wanted.rank() == 1) {
    return apply1(kDefs[0], {rows, wanted}, attrs, sorted.where());
  }
  const Tensor places =
      apply1(kDefs[0], {rows, reshape(values, {wanted.elements()})}, attrs, sorted.where());
  return reshape(places, wanted.shape());
}

Unique unique(const Arg& x, int64_t size, double fill) {
  check(size >= 0, "unique: places for {} elements, at {}", size, to_string(x.where()));
  const int64_t n = x.tensor().elements();
  const Tensor flat = reshape(x, {n});
  const Tensor order = argsort(flat);
  const Tensor sorted = gather(flat, order);
  // Where an element differs from the one before it, the next place begins.
  const Tensor places = n == 0
                            ? iota({0}, 0)
                            : concat(std::array{full({1}, 0, Dtype::kI32),
                                                cumsum(cast(not_equal(slice(sorted, 0, 1, n),
                                                                      slice(sorted, 0, 0, n - 1)),
                                                            Dtype::kI32),
                                                       0)},
                                     0);
  const Tensor kept = minimum(places, size);
  const auto placed = [&](const Tensor& all) { return slice(all, 0, 0, size); };
  const Tensor none = full({n}, 0, Dtype::kI32);
  return {
      placed(scatter_set(full({size + 1}, fill, flat.dtype(), x.where()), kept, sorted)),
      placed(scatter_add(full({size + 1}, 0, Dtype::kI32), kept, full({n}, 1, Dtype::kI32))),
      reshape(scatter_set(none, order, kept), x.tensor().shape()),
      n == 0 ? full({}, 0, Dtype::kI32) : select(places, 0, n - 1) + 1,
  };
}

Tensor histogram(const Arg& x, int64_t bins, double low, double high) {
  check(bins >= 1 && low < high, "histogram: {} bins between {} and {}, at {}", bins, low, high,
        to_string(x.where()));
  const int64_t n = x.tensor().elements();
  const Tensor flat = reshape(x, {n});
  const Tensor values = is_floating(flat.dtype()) ? flat : cast(flat, Dtype::kF64);
  const Tensor inside = logical_and(values >= low, values <= high);
  const Tensor at =
      floor((where(inside, values, low) - low) * (static_cast<double>(bins) / (high - low)));
  const Tensor bin = minimum(cast(at, Dtype::kI32), bins - 1);
  return scatter_add(full({bins}, 0, Dtype::kI32), bin, cast(inside, Dtype::kI32));
}

}  // namespace mstrain
