// rotary: (x[b, t, h, d], cos[b|1, t, d/2], sin[b|1, t, d/2]) -> [b, t, h, d]
#include "core/ops/rotary.h"

#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 3);
  const TensorType& x = in[0];
  if (!is_floating(x.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(x.dtype)),
                     "convert it with cast()");
  }
  if (x.shape.rank() != 4 || x.shape[3] % 2 != 0) {
    throw ShapeError(
        fmt::format("{} is not [batch, time, heads, dim] with an even dim", to_string(x.shape)));
  }
  const Dtype dtype = accumulation_dtype(x.dtype);
  const TensorType each{dtype, {x.shape[0], x.shape[1], x.shape[3] / 2}};
  const TensorType shared{dtype, {1, x.shape[1], x.shape[3] / 2}};
  if (!(in[1] == in[2]) || (!(in[1] == each) && !(in[1] == shared))) {
    throw ShapeError(fmt::format("cos {} and sin {} do not turn {}: they are {} or {}",
                                 to_string(in[1]), to_string(in[2]), to_string(x), to_string(each),
                                 to_string(shared)));
  }
  return {x};
}

// The two halves of every head, in the precision of sums.
std::array<Tensor, 2> halves(const Tensor& x) {
  const Tensor wide = widened(x);
  const int64_t d = x.dim(3);
  return {slice(wide, 3, 0, d / 2), slice(wide, 3, d / 2, d)};
}

Tensors decompose(const Attrs&, std::span<const Tensor> in) {
  const auto [a, b] = halves(in[0]);
  const Tensor cos = expand_dims(in[1], 2);
  const Tensor sin = expand_dims(in[2], 2);
  const Tensor turned[] = {a * cos - b * sin, b * cos + a * sin};
  return {cast(concat(turned, 3, kHere), in[0].dtype())};
}

// Linear in x, and in cos and sin together.
Tensors jvp(const Application& node, std::span<const Tensor> t) {
  const auto turn = [&](const Tensor& x, const Tensor& cos, const Tensor& sin) {
    return apply1(node.op, {x, cos, sin}, {}, kHere);
  };
  const auto or_zero = [&](size_t i) { return t[i].defined() ? t[i] : zeros_like(node.inputs[i]); };
  Tensor result;
  if (t[0].defined()) {
    result = turn(t[0], node.inputs[1], node.inputs[2]);
  }
  if (t[1].defined() || t[2].defined()) {
    result = add_or_zero(result, turn(node.inputs[0], or_zero(1), or_zero(2)));
  }
  return {result};
}

// The transpose of a turn is the turn back.
Tensors vjp(const Application& node, std::span<const Tensor> ct) {
  const Tensor& cos = node.inputs[1];
  const auto [a, b] = halves(node.inputs[0]);
  const auto [ga, gb] = halves(ct[0]);
  const auto summed = [&](const Tensor& each) {
    const Tensor of_heads = sum(each, {2});
    return cos.dim(0) == of_heads.dim(0) ? of_heads : sum(of_heads, {0}, true);
  };
  return {apply1(node.op, {ct[0], cos, -node.inputs[2]}, {}, kHere), summed(ga * a + gb * b),
          summed(gb * a - ga * b)};
}

Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  const Tensors all = batch_all(in, batched, size);
  const int64_t b = all[0].dim(1);
  const bool shared = !batched[1] && !batched[2] && in[1].dim(0) == 1;
  Tensors joined{flatten(all[0], 0, 1)};
  for (size_t i : {1U, 2U}) {
    const Shape& shape = all[i].shape();
    joined.push_back(shared ? in[i]
                            : flatten(broadcast_to(all[i], {size, b, shape[2], shape[3]}), 0, 1));
  }
  return {reshape(apply(op, joined, attrs, kHere)[0], all[0].shape())};
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 3);
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& x, int64_t rows) {
    const TensorType angles{accumulation_dtype(t), {rows, x[1], x[3] / 2}};
    result.push_back({{{{t, x}, -2, 2}, {angles}, {angles}}, {}});
  };
  add({2, 3, 2, 8}, 1);
  add({2, 3, 2, 6}, 2);  // other positions in each row
  add({1, 1, 1, 2}, 1);
  add({3, 5, 3, 66}, 1);
  add({0, 3, 2, 4}, 1);
  add({2, 0, 2, 4}, 2);
  return result;
}

// The angles stay in the precision of sums whatever x is.
// x[b, t, h, d] by samples, positions or heads.
std::vector<Way> layout_rotary(const LayoutRequest& request) {
  const int sample = request.inputs[1].shape[0] == request.inputs[0].shape[0] ? 0 : layout::kWhole;
  std::vector<Way> ways = layout::sums(request, 0b001);
  ways.push_back(layout::by_dims(request, {0, sample, sample}, {0}));
  ways.push_back(layout::by_dims(request, {1, 1, 1}, {1}));
  ways.push_back(layout::by_dims(request, {2, layout::kWhole, layout::kWhole}, {2}));
  for (Way& way : ways) {
    way.uneven = true;
  }
  return ways;
}

constexpr OpDef kDefs[] = {{.name = "rotary",
                            .infer = infer,
                            .jvp = jvp,
                            .vjp = vjp,
                            .batch = batch,
                            .decompose = decompose,
                            .cost = cost,
                            .layout = layout_rotary,
                            .samples = samples,
                            .precision = Precision::kAny}};

}  // namespace

std::span<const OpDef> rotary_ops() { return kDefs; }

Tensor rotary(const Arg& x, const Arg& cos, const Arg& sin) {
  return apply1(kDefs[0], {x.tensor(), cos.tensor(), sin.tensor()}, {}, x.where());
}

}  // namespace mstrain
