// encode_float8{format, margin}: (x[lead..., shape], expected f32[lead...], most f32[lead...]) -> (u8 codes, f32 units[lead...])
// decode_float8{format}: u8 codes -> bf16
// float8_product{dims, a, b}: (u8 a, u8 b, f32 unit of a [], f32 unit of b []) -> bf16; a and b: formats
#include "core/ops/float8.h"

#include <array>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr std::string_view kNames[] = {"e4m3", "e5m2"};

std::string name_of(Float8 format) { return std::string(kNames[static_cast<int>(format)]); }

void expect_codes(const TensorType& type) {
  if (type.dtype != Dtype::kU8) {
    throw ShapeError(fmt::format("codes are {}, not u8", to_string(type)), "encode_float8()");
  }
}

Types infer_encode(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 3);
  float8_of(attrs, "format");
  attrs.integer("margin");
  const Shape& lead = in[1].shape;
  const bool leads = lead.rank() <= in[0].shape.rank() &&
                     std::equal(lead.begin(), lead.end(), in[0].shape.begin());
  if (!is_floating(in[0].dtype) || !leads || in[1] != in[2] || in[1].dtype != Dtype::kF32) {
    throw ShapeError(fmt::format("magnitudes are {} and {}, not f32 of leading dims of {}",
                                 to_string(in[1]), to_string(in[2]), to_string(in[0])));
  }
  return {{Dtype::kU8, in[0].shape}, in[1]};
}

Types infer_decode(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  float8_of(attrs, "format");
  expect_codes(in[0]);
  return {{Dtype::kBF16, in[0].shape}};
}

Types infer_product(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 4);
  for (size_t i = 0; i < 2; ++i) {
    float8_of(attrs, i == 0 ? "a" : "b");
    expect_codes(in[i]);
    if (in[2 + i] != TensorType{Dtype::kF32, {}}) {
      throw ShapeError(fmt::format("a unit is {}, not f32[]", to_string(in[2 + i])));
    }
  }
  return kDotGeneral.infer(
      std::array{TensorType{Dtype::kBF16, in[0].shape}, TensorType{Dtype::kBF16, in[1].shape}},
      attrs);
}

Tensors decompose_product(const Attrs& attrs, std::span<const Tensor> in) {
  Tensor z = dot_general(decode_float8(in[0], float8_of(attrs, "a")),
                         decode_float8(in[1], float8_of(attrs, "b")), dot_dims(attrs));
  for (const Tensor& unit : in.subspan(2)) {
    z = z * cast(unit, z.dtype());
  }
  return {z};
}

Cost cost_encode(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 12);
}
Cost cost_decode(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 6);
}
Cost cost_product(std::span<const TensorType> in, std::span<const TensorType> out,
                  const Attrs& attrs) {
  return kDotGeneral.cost(in.first(2), out, attrs);
}

// Codes lie where their numbers do; magnitudes are those of all ranks.
std::vector<Way> layout_encode(const LayoutRequest& request) {
  const int lead = request.inputs[1].shape.rank();
  std::vector<Way> ways;
  for (int dim = 0; dim < request.inputs[0].shape.rank(); ++dim) {
    const int of_unit = dim < lead ? dim : layout::kWhole;
    ways.push_back(layout::by_dims(request, {dim, of_unit, of_unit}, {dim, of_unit}));
    ways.back().uneven = true;
  }
  return ways;
}

std::vector<Sample> samples_encode(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& shape, const Shape& lead, double most, double expected,
                       int64_t margin) {
    for (const Float8 format : {Float8::kE4M3, Float8::kE5M2}) {
      result.push_back({{{{t, shape}, -most, most},
                         {{Dtype::kF32, lead}, expected, expected},
                         {{Dtype::kF32, lead}, most, most}},
                        {{"format", name_of(format)}, {"margin", margin}}});
    }
  };
  add({3, 33}, {}, 2, 2, 0);
  add({}, {}, 2, 0, 0);
  add({1030}, {}, 3e-5, 1e-3, 1);  // few bits are left
  add({2, 257}, {2}, 100, 7, 0);   // more than was expected
  add({0, 4}, {}, 1, 1, 0);
  return result;
}

std::vector<Sample> samples_decode(Dtype) {
  std::vector<Sample> result;
  for (const Float8 format : {Float8::kE4M3, Float8::kE5M2}) {
    for (const Shape& shape : {Shape{3, 400}, Shape{}, Shape{0, 4}}) {
      result.push_back({{{{Dtype::kU8, shape}, 0, 256}}, {{"format", name_of(format)}}});
    }
  }
  return result;
}

// Of a's numbers all are above 0, of b's below.
std::vector<Sample> samples_product(Dtype) {
  std::vector<Sample> result;
  const auto add = [&](const char* dims, const Shape& a, const Shape& b, Float8 of_b) {
    result.push_back({{{{Dtype::kU8, a}, 40, 80},
                       {{Dtype::kU8, b}, 168, 208},
                       {{Dtype::kF32, {}}, 0.25, 0.25},
                       {{Dtype::kF32, {}}, 4, 4}},
                      {{"a", name_of(Float8::kE4M3)}, {"b", name_of(of_b)}, {"dims", dims}}});
  };
  add("ab,bc->ac", {5, 16}, {16, 32}, Float8::kE4M3);
  add("abc,cdef->abdef", {2, 3, 16}, {16, 3, 2, 8}, Float8::kE4M3);
  add("abc,abd->cd", {2, 8, 16}, {2, 8, 32}, Float8::kE5M2);
  add("abc,dc->abd", {2, 8, 16}, {32, 16}, Float8::kE5M2);
  add("ab,bc->ac", {3, 7}, {7, 5}, Float8::kE4M3);
  add("ab,bc->ac", {0, 16}, {16, 16}, Float8::kE4M3);
  return result;
}

constexpr OpDef kDefs[] = {{.name = "encode_float8",
                            .kind = OpKind::kIndex,
                            .infer = infer_encode,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost_encode,
                            .layout = layout_encode,
                            .samples = samples_encode,
                            .smooth = false,
                            .precision = Precision::kAny},
                           {.name = "decode_float8",
                            .kind = OpKind::kIndex,
                            .dtypes = DtypeClass::kInteger,
                            .infer = infer_decode,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost_decode,
                            .layout = layout::alike,
                            .samples = samples_decode,
                            .smooth = false,
                            .precision = Precision::kAny},
                           {.name = "float8_product",
                            .kind = OpKind::kContract,
                            .dtypes = DtypeClass::kInteger,
                            .infer = infer_product,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_by_decomposition,
                            .decompose = decompose_product,
                            .cost = cost_product,
                            .layout = layout::letters,
                            .samples = samples_product,
                            .smooth = false,
                            .precision = Precision::kAny}};

}  // namespace

Float8 float8_of(const Attrs& attrs, std::string_view key) {
  const std::string& name = attrs.text(key);
  if (name != kNames[0] && name != kNames[1]) {
    throw ShapeError(fmt::format("the format '{}' is unknown", name), "there are e4m3 and e5m2");
  }
  return name == kNames[0] ? Float8::kE4M3 : Float8::kE5M2;
}

std::span<const OpDef> float8_ops() { return kDefs; }

Float8Tensor encode_float8(const Arg& x, const Arg& expected, const Arg& most, Float8 format,
                           int64_t margin) {
  const Tensors results = apply(kDefs[0], std::array{x.tensor(), expected.tensor(), most.tensor()},
                                {{"format", name_of(format)}, {"margin", margin}}, x.where());
  return {results[0], results[1], format};
}

Tensor decode_float8(const Arg& codes, Float8 format) {
  return apply1(kDefs[1], {codes.tensor()}, {{"format", name_of(format)}}, codes.where());
}

Tensor float8_product(const Float8Tensor& a, const Float8Tensor& b, const DotDims& dims) {
  return apply1(kDefs[2], {a.codes, b.codes, a.unit, b.unit},
                {{"a", name_of(a.format)}, {"b", name_of(b.format)}, {"dims", to_text(dims)}},
                kHere);
}

}  // namespace mstrain
