// adamw_stored{beta1, beta2, eps, weight_decay, copy, site}:
//   (value, gradient, m, v, [m's scales, v's scales,] lr[], grad_scale[], correction1[], correction2[], apply[], key[2 or 3])
//   -> (value', m', v', [scales', scales',] [copy])
// value is f32 or bf16; m and v are both f32, bf16, or u8 with scales; copy is there unless its dtype is f32.
#include "core/ops/adamw_stored.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/ops/block_code.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/rounding.h"

namespace mstrain {
namespace {

constexpr size_t kTensors = 4, kScalars = 6;

bool is_value_type(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kBF16; }

void expect_type(std::string_view what, const TensorType& given, const TensorType& wanted) {
  if (!(given == wanted)) {
    throw ShapeError(fmt::format("{} is {}, not {}", what, to_string(given), to_string(wanted)));
  }
}

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.size() != kTensors + kScalars && in.size() != kTensors + 2 + kScalars) {
    throw ShapeError(fmt::format("takes 10 or 12 tensors, not {}", in.size()));
  }
  for (const char* name : {"beta1", "beta2", "eps", "weight_decay"}) {
    attrs.number(name);
  }
  attrs.integer("site");
  const bool blocks = in.size() != kTensors + kScalars;
  const TensorType& value = in[0];
  const Dtype moments = in[2].dtype;
  if (!is_value_type(value.dtype) || !(blocks ? moments == Dtype::kU8 : is_value_type(moments))) {
    throw ShapeError(fmt::format("is not defined for a value in {} with moments in {}",
                                 name_of(value.dtype), name_of(moments)));
  }
  if (!is_floating(in[1].dtype) || !(in[1].shape == value.shape)) {
    throw ShapeError(
        fmt::format("the parameter is {}, its gradient {}", to_string(value), to_string(in[1])));
  }
  const TensorType moment{moments, value.shape};
  const TensorType scales{Dtype::kF32, {code_blocks(value.elements())}};
  expect_type("the first moment", in[2], moment);
  expect_type("the second moment", in[3], moment);
  Types results{value, moment, moment};
  if (blocks) {
    expect_type("a moment's scales", in[4], scales);
    expect_type("a moment's scales", in[5], scales);
    results.insert(results.end(), 2, scales);
  }
  const auto scalars = in.last(kScalars);
  for (const TensorType& scalar : scalars.first(4)) {
    expect_type("a scalar", scalar, {Dtype::kF32, {}});
  }
  expect_type("apply", scalars[4], {Dtype::kBool, {}});
  if (scalars[5].shape.rank() != 1 || !is_key_width(scalars[5].shape[0])) {
    expect_type("the key", scalars[5], {Dtype::kU32, {2}});
  }
  expect_type("the key", {Dtype::kU32, scalars[5].shape}, scalars[5]);
  const Dtype copy = attrs.dtype("copy");
  if (!is_floating(copy) || copy == Dtype::kF64 ||
      (copy != Dtype::kF32 && value.dtype != Dtype::kF32)) {
    throw ShapeError(fmt::format("gives no copy in {} of {}", name_of(copy), name_of(value.dtype)));
  }
  if (copy != Dtype::kF32) {
    results.push_back({copy, value.shape});
  }
  return results;
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const bool blocks = in.size() != kTensors + kScalars;
  const auto scalars = in.last(kScalars);
  const Tensor& apply = scalars[4];
  const Tensor& key = scalars[5];
  const int64_t site = attrs.integer("site");
  const double beta1 = attrs.number("beta1");
  const double beta2 = attrs.number("beta2");
  const StoredTensorState value{in[0], {}};
  const StoredTensorState m{in[2], blocks ? in[4] : Tensor()};
  const StoredTensorState v{in[3], blocks ? in[5] : Tensor()};

  const Tensor p = load(value, true);
  const Tensor g = cast(in[1], Dtype::kF32) * scalars[1];
  const Tensor old_v = load(v, false);
  Tensor old_m = load(m, true);
  old_m = blocks ? limited_first_moment(old_m, old_v, beta1, beta2) : old_m;
  const Tensor new_m = beta1 * old_m + (1 - beta1) * g;
  const Tensor new_v = beta2 * old_v + (1 - beta2) * (g * g);
  Tensor step = new_m / scalars[2] / (sqrt(new_v / scalars[3]) + attrs.number("eps"));
  if (attrs.number("weight_decay") != 0) {
    step = step + attrs.number("weight_decay") * p;
  }
  const Tensor next = store(p - scalars[0] * step, value, apply, key, site, true).values;
  const StoredTensorState next_m = store(new_m, m, apply, key, site + 1, true);
  const StoredTensorState next_v = store(new_v, v, apply, key, site + 2, false);
  Tensors results{next, next_m.values, next_v.values};
  if (blocks) {
    results.insert(results.end(), {next_m.scales, next_v.scales});
  }
  if (attrs.dtype("copy") != Dtype::kF32) {
    results.push_back(cast(next, attrs.dtype("copy")));
  }
  return results;
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost total = elementwise_cost(in, out, 0);
  total.flops = 18 * static_cast<double>(in[0].elements());
  return total;
}

// The gradient's type varies.
std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const auto add = [&](const Shape& shape, Dtype value, Dtype moments, Dtype copy, double decay,
                       int64_t words = 2) {
    const bool blocks = moments == Dtype::kU8;
    const TensorType scales{Dtype::kF32, {code_blocks(shape.elements())}};
    const TensorType scalar{Dtype::kF32, {}};
    Sample sample;
    sample.inputs = {{{value, shape}, -1, 1},
                     {{t, shape}, -1, 1},
                     {{moments, shape}, blocks ? 0.0 : -0.5, blocks ? 256.0 : 0.5},
                     {{moments, shape}, blocks ? 0.0 : 0.1, blocks ? 256.0 : 1.0}};
    if (blocks) {
      sample.inputs.insert(sample.inputs.end(), {{scales, 0.1, 1}, {scales, 0.1, 1}});
    }
    sample.inputs.insert(sample.inputs.end(), {{scalar, 0.01, 0.1},
                                               {scalar, 0.5, 1},
                                               {scalar, 0.1, 0.9},
                                               {scalar, 0.05, 0.9},
                                               {{Dtype::kBool, {}}, 0, 2},
                                               {{Dtype::kU32, {words}}, 0, 1000}});
    sample.attrs = {{"beta1", 0.9},          {"beta2", 0.95}, {"eps", 1e-8},
                    {"weight_decay", decay}, {"copy", copy},  {"site", int64_t{-11}}};
    result.push_back(std::move(sample));
  };
  const Dtype f32 = Dtype::kF32, bf16 = Dtype::kBF16, f16 = Dtype::kF16, u8 = Dtype::kU8;
  add({}, f32, f32, bf16, 0.1);
  add({3, 33}, f32, f32, f32, 0.1);
  add({3, 33}, f32, f32, f16, 0);
  add({1030}, f32, bf16, bf16, 0.1);
  add({2, 300}, f32, u8, bf16, 0.1);
  add({515}, f32, u8, f16, 0);
  add({2, 300}, bf16, bf16, f32, 0.1);
  add({3, 33}, bf16, u8, f32, 0);
  add({0, 4}, f32, u8, bf16, 0.1);
  add({1, 1030}, bf16, f32, f32, 0.1);
  add({700}, bf16, u8, f32, 0.1, 3);
  return result;
}

constexpr OpDef kDefs[] = {{.name = "adamw_stored",
                            .infer = infer,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_by_decomposition,
                            .decompose = decompose,
                            .cost = cost,
                            .layout = layout::whole,
                            .samples = samples,
                            .smooth = false}};

}  // namespace

std::span<const OpDef> adamw_stored_ops() { return kDefs; }

StoredTensorState store(const Tensor& x, const StoredTensorState& like, const Tensor& apply,
                        const Tensor& key, int64_t site, bool is_signed) {
  if (like.scales.defined()) {
    const Blocks blocks = quantize_blocks(x, key, site, is_signed);
    return {where(apply, blocks.codes, like.values), where(apply, blocks.scales, like.scales)};
  }
  const bool rounds = like.values.dtype() == Dtype::kBF16;
  return {where(apply, rounds ? stochastic_round(x, key, site) : x, like.values), {}};
}

Tensor load(const StoredTensorState& stored, bool is_signed) {
  return stored.scales.defined() ? dequantize_blocks({stored.values, stored.scales}, is_signed)
                                 : cast(stored.values, Dtype::kF32);
}

double most_of_first_moment(double beta1, double beta2) {
  const double falls = 1 - beta1 * beta1 / beta2;
  return falls > 0 ? (1 - beta1) / std::sqrt((1 - beta2) * falls)
                   : std::numeric_limits<double>::infinity();
}

Tensor limited_first_moment(const Tensor& m, const Tensor& v, double beta1, double beta2) {
  const double most = most_of_first_moment(beta1, beta2);
  if (!std::isfinite(most)) {
    return m;
  }
  const Tensor limit = most * sqrt(v);
  return where(m > limit, limit, where(m < -limit, -limit, m));
}

AdamwStoredResult adamw_stored_update(const AdamwStored& state, const Arg& gradient,
                                      const AdamwScalars& scalars,
                                      const AdamwStoredOptions& options) {
  const bool blocks = state.m.scales.defined();
  Tensors inputs{state.value, gradient.tensor(), state.m.values, state.v.values};
  if (blocks) {
    inputs.insert(inputs.end(), {state.m.scales, state.v.scales});
  }
  inputs.insert(inputs.end(), {scalars.lr, scalars.grad_scale, scalars.correction1,
                               scalars.correction2, options.apply, options.key});
  const Tensors results = apply(kDefs[0], inputs,
                                {{"beta1", options.rule.beta1},
                                 {"beta2", options.rule.beta2},
                                 {"eps", options.rule.eps},
                                 {"weight_decay", options.rule.weight_decay},
                                 {"copy", options.copy},
                                 {"site", options.site}},
                                gradient.where());
  AdamwStoredResult result;
  result.state = {results[0],
                  {results[1], blocks ? results[3] : Tensor()},
                  {results[2], blocks ? results[4] : Tensor()}};
  if (options.copy != Dtype::kF32) {
    result.copy = results.back();
  }
  return result;
}

}  // namespace mstrain
