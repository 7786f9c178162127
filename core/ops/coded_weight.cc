// coded_product{code, transposed, width}, decode_rows{code, width}.
#include "core/ops/coded_weight.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"
#include "core/ops/matmul.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

WeightCode code_of(const Attrs& attrs) {
  const auto code = parse_weight_code(attrs.text("code"));
  if (!code) {
    throw ShapeError(fmt::format("the code '{}' is unknown", attrs.text("code")),
                     "there are bf16, int8 and nf4");
  }
  return *code;
}

// `width` of rows whose last dim is `bytes`.
int64_t width_of(const TensorType& rows, const Attrs& attrs) {
  const int64_t width = attrs.integer("width");
  if (rows.dtype != Dtype::kU8 || rows.shape.rank() < 1) {
    throw ShapeError(fmt::format("rows are {}, not u8[..., bytes]", to_string(rows)));
  }
  if (width < 1) {
    throw ShapeError(fmt::format("the width {} is not at least 1", width));
  }
  const int64_t bytes = code_row_bytes(code_of(attrs), width);
  if (rows.shape.back() != bytes) {
    throw ShapeError(fmt::format("rows of {} bytes are not those of {} numbers in {}, which are {}",
                                 rows.shape.back(), width, attrs.text("code"), bytes));
  }
  return width;
}

Types infer_decode(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const int64_t width = width_of(in[0], attrs);
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = width;
  return {{Dtype::kF32, shape}};
}

Types infer_product(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  const int64_t width = width_of(in[1], attrs);
  if (in[1].shape.rank() != 2) {
    throw ShapeError(fmt::format("rows are {}, not u8[n, bytes]", to_string(in[1])));
  }
  if (!is_floating(in[0].dtype)) {
    throw ShapeError(fmt::format("x is {}", name_of(in[0].dtype)), "convert it with cast()");
  }
  const bool transposed = attrs.flag("transposed");
  const int64_t summed = transposed ? in[1].shape[0] : width;
  if (in[0].shape.rank() < 1 || in[0].shape.back() != summed) {
    throw ShapeError(fmt::format("x is {}, not [..., {}]", to_string(in[0]), summed));
  }
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = transposed ? width : in[1].shape[0];
  return {{in[0].dtype, shape}};
}

Tensors jvp_product(const Application& node, std::span<const Tensor> t) {
  return {t[0].defined() ? apply1(node.op, {t[0], node.inputs[1]}, node.attrs, kHere) : Tensor()};
}

Tensors vjp_product(const Application& node, std::span<const Tensor> ct) {
  const Attrs attrs = node.attrs.with("transposed", !node.attrs.flag("transposed"));
  return {apply1(node.op, {ct[0], node.inputs[1]}, attrs, kHere), Tensor()};
}

Tensors batch_product(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
                      std::span<const bool> batched, int64_t size) {
  return batched[1] ? batch_by_decomposition(op, attrs, in, batched, size)
                    : apply(op, in, attrs, kHere);
}

Tensors decompose_product(const Attrs& attrs, std::span<const Tensor> in) {
  const Tensor x = widened(in[0]);
  const Tensor numbers =
      cast(decode_rows(in[1], code_of(attrs), attrs.integer("width")), x.dtype());
  return {cast(matmul(x, numbers, {.transpose_b = !attrs.flag("transposed")}), in[0].dtype())};
}

Cost cost_decode(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 2);
}
Cost cost_product(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 2 * static_cast<double>(in[0].shape.back()));
}

// Any bytes are numbers, but for bf16; these are of both signs, with scales within 2^8 of each other, so that small ones show
// beside large ones, and of bf16 below 1/4.
SampleInput rows_sample(WeightCode code, Shape shape) {
  const bool has_scales = code != WeightCode::kBf16;
  return {{Dtype::kU8, std::move(shape)}, has_scales ? 96.0 : 56.0, has_scales ? 160.0 : 63.0};
}

std::vector<Sample> samples_decode(Dtype) {
  std::vector<Sample> result;
  for (const WeightCode code : kAllWeightCodes) {
    const auto add = [&](Shape shape, int64_t width) {
      shape.push_back(code_row_bytes(code, width));
      result.push_back({{rows_sample(code, std::move(shape))},
                        {{"code", std::string(name_of(code))}, {"width", width}}});
    };
    add({}, 1);
    add({3}, 33);
    add({2, 3}, 130);
    add({0}, 64);
  }
  return result;
}

std::vector<Sample> samples_product(Dtype t) {
  std::vector<Sample> result;
  for (const WeightCode code : kAllWeightCodes) {
    const auto add = [&](Shape lead, int64_t n, int64_t width) {
      for (const bool transposed : {false, true}) {
        Shape x = lead;
        x.push_back(transposed ? n : width);
        result.push_back(
            {{{{t, x}}, rows_sample(code, {n, code_row_bytes(code, width)})},
             {{"code", std::string(name_of(code))}, {"transposed", transposed}, {"width", width}}});
      }
    };
    add({2, 3}, 5, 33);
    add({}, 3, 1);
    add({1}, 7, 64);
    add({35}, 3, 70);  // more rows than are few
    add({3, 0}, 2, 8);
  }
  return result;
}

std::string title(const Attrs& attrs) {
  return fmt::format("coded_product {}{}", attrs.text("code"),
                     attrs.flag("transposed") ? " transposed" : "");
}

// (x[..., k], rows[n, bytes]): along the dims that lead x, or each rank with a range of the weight's rows.
std::vector<Way> layout_coded(const LayoutRequest& request) {
  const int last = request.inputs[0].shape.rank() - 1;
  std::vector<Way> ways = layout::sums(request, 0b01);
  for (int i = 0; i < last; ++i) {
    ways.push_back(layout::by_dims(request, {i, layout::kWhole}, {i}));
  }
  const bool transposed = request.attrs.flag("transposed");
  ways.push_back(layout::by_dims(request, {transposed ? last : layout::kWhole, 0},
                                 {transposed ? layout::kWhole : last}));
  if (transposed) {
    ways.back().outputs[0] = partial();
  }
  return ways;
}

constexpr OpDef kDefs[] = {{.name = "coded_product",
                            .kind = OpKind::kContract,
                            .infer = infer_product,
                            .jvp = jvp_product,
                            .vjp = vjp_product,
                            .batch = batch_product,
                            .decompose = decompose_product,
                            .cost = cost_product,
                            .layout = layout_coded,
                            .samples = samples_product,
                            .precision = Precision::kNarrow,
                            .title = title},
                           {.name = "decode_rows",
                            .kind = OpKind::kIndex,
                            .dtypes = DtypeClass::kInteger,
                            .infer = infer_decode,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost_decode,
                            .layout = layout::leading<1>,
                            .samples = samples_decode,
                            .smooth = false}};

}  // namespace

std::span<const OpDef> coded_weight_ops() { return kDefs; }

Tensor coded_product(const Arg& x, const Arg& rows, WeightCode code, int64_t width,
                     bool transposed) {
  return apply1(
      kDefs[0], {x.tensor(), rows.tensor()},
      {{"code", std::string(name_of(code))}, {"transposed", transposed}, {"width", width}},
      x.where());
}

Tensor decode_rows(const Arg& rows, WeightCode code, int64_t width) {
  return apply1(kDefs[1], {rows.tensor()}, {{"code", std::string(name_of(code))}, {"width", width}},
                rows.where());
}

}  // namespace mstrain
