// stochastic_round{site}: (x[lead..., shape], key u32[lead..., 2 or 3]) -> bf16
// quantize_blocks{site, signed}: (x[lead..., shape], key u32[lead..., 2 or 3]) -> (u8 codes, f32 scales[lead..., blocks])
// dequantize_blocks{signed}: (u8 codes[lead..., shape], f32 scales[lead..., blocks]) -> f32
// The leading dims are those of a batch; element i is counted within `shape`.
#include "core/ops/rounding.h"

#include "core/ops/block_code.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"

namespace mstrain {
namespace {

// The leading dims of x that `other`, whose last dim stands for all of x's others, repeats.
Shape leading_dims(const TensorType& x, const TensorType& other) {
  const int lead = other.shape.rank() - 1;
  Shape shape;
  for (int i = 0; i < lead; ++i) {
    if (i >= x.shape.rank() || x.shape[i] != other.shape[i]) {
      throw ShapeError(
          fmt::format("leading dims of {} are not those of {}", to_string(other), to_string(x)));
    }
    shape.push_back(x.shape[i]);
  }
  return shape;
}

// Elements that one of a batch has.
int64_t own_elements(const TensorType& x, int lead) {
  int64_t count = 1;
  for (int i = lead; i < x.shape.rank(); ++i) {
    count *= x.shape[i];
  }
  return count;
}

void check_keyed(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  if (!is_floating(in[0].dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(in[0].dtype)));
  }
  if (in[1].dtype != Dtype::kU32 || in[1].shape.rank() < 1 || !is_key_width(in[1].shape.back())) {
    throw ShapeError(fmt::format("the key is {}, not u32[2] or u32[3]", to_string(in[1])),
                     "make one with rng_key()");
  }
  leading_dims(in[0], in[1]);
  attrs.integer("site");
}

Types infer_round(std::span<const TensorType> in, const Attrs& attrs) {
  check_keyed(in, attrs);
  return {{Dtype::kBF16, in[0].shape}};
}

Types infer_quantize(std::span<const TensorType> in, const Attrs& attrs) {
  check_keyed(in, attrs);
  attrs.flag("signed");
  Shape scales = leading_dims(in[0], in[1]);
  scales.push_back(code_blocks(own_elements(in[0], scales.rank())));
  return {{Dtype::kU8, in[0].shape}, {Dtype::kF32, scales}};
}

Types infer_dequantize(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 2);
  attrs.flag("signed");
  if (in[0].dtype != Dtype::kU8 || in[1].dtype != Dtype::kF32 || in[1].shape.rank() < 1) {
    throw ShapeError(fmt::format("codes are {} and scales {}, not u8 and f32", to_string(in[0]),
                                 to_string(in[1])));
  }
  const int lead = leading_dims(in[0], in[1]).rank();
  const int64_t blocks = code_blocks(own_elements(in[0], lead));
  if (in[1].shape.back() != blocks) {
    throw ShapeError(fmt::format("{} codes have {} scales, not {}", own_elements(in[0], lead),
                                 in[1].shape.back(), blocks));
  }
  return {{Dtype::kF32, in[0].shape}};
}

// Ten rounds of a few integer operations for each four words.
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 20);
}
Cost cost_dequantize(std::span<const TensorType> in, std::span<const TensorType> out,
                     const Attrs&) {
  return elementwise_cost(in, out, 4);
}

std::vector<Sample> samples_keyed(Dtype t, const Attrs& attrs) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& shape, const Shape& key, double low, double high) {
    result.push_back({{{{t, shape}, low, high}, {{Dtype::kU32, key}, 0, 1000}}, attrs});
  };
  add({3, 33}, {2}, -2, 2);
  add({}, {2}, -2, 2);
  add({1030}, {2}, 0, 1e-3);
  add({2, 257}, {2}, -100, 100);
  add({0, 4}, {2}, -1, 1);
  add({3, 300}, {3, 2}, -1, 1);
  add({256}, {2}, 0, 0);
  add({700}, {3}, -1, 1);
  return result;
}

std::vector<Sample> samples_round(Dtype t) { return samples_keyed(t, {{"site", int64_t{-7}}}); }

std::vector<Sample> samples_quantize(Dtype t) {
  std::vector<Sample> result = samples_keyed(t, {{"site", int64_t{5}}, {"signed", true}});
  for (Sample& sample : samples_keyed(t, {{"site", int64_t{1} << 40}, {"signed", false}})) {
    result.push_back(std::move(sample));
  }
  return result;
}

std::vector<Sample> samples_dequantize(Dtype) {
  std::vector<Sample> result;
  for (bool is_signed : {false, true}) {
    const auto add = [&](const Shape& codes, const Shape& scales) {
      result.push_back({{{{Dtype::kU8, codes}, 0, 256}, {{Dtype::kF32, scales}, 0, 10}},
                        {{"signed", is_signed}}});
    };
    add({3, 33}, {1});
    add({}, {1});
    add({1030}, {5});
    add({0, 4}, {0});
    add({3, 300}, {3, 2});
  }
  return result;
}

constexpr OpDef kDefs[] = {{.name = "stochastic_round",
                            .kind = OpKind::kRandom,
                            .infer = infer_round,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = layout::whole,
                            .samples = samples_round,
                            .smooth = false},
                           {.name = "quantize_blocks",
                            .kind = OpKind::kRandom,
                            .infer = infer_quantize,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = layout::whole,
                            .samples = samples_quantize,
                            .smooth = false},
                           {.name = "dequantize_blocks",
                            .kind = OpKind::kIndex,
                            .dtypes = DtypeClass::kInteger,
                            .infer = infer_dequantize,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost_dequantize,
                            .layout = layout::whole,
                            .samples = samples_dequantize,
                            .smooth = false}};

}  // namespace

std::span<const OpDef> rounding_ops() { return kDefs; }

Tensor stochastic_round(const Arg& x, const Arg& key, int64_t site) {
  return apply1(kDefs[0], {x.tensor(), key.tensor()}, {{"site", site}}, x.where());
}

Blocks quantize_blocks(const Arg& x, const Arg& key, int64_t site, bool is_signed) {
  const Tensors results = apply(kDefs[1], std::array{x.tensor(), key.tensor()},
                                {{"site", site}, {"signed", is_signed}}, x.where());
  return {results[0], results[1]};
}

Tensor dequantize_blocks(const Blocks& blocks, bool is_signed) {
  return apply1(kDefs[2], {blocks.codes, blocks.scales}, {{"signed", is_signed}},
                SourceLocation::current());
}

}  // namespace mstrain
