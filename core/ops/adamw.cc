// adamw{beta1, beta2, eps, weight_decay, decayed}:
//   (p, g, m, v for each parameter, lr[], grad_scale[], correction1[], correction2[]) -> (p', m', v' for each)
// The first `decayed` parameters decay.
#include "core/ops/adamw.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/layouts.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

// Tensors of one parameter among the inputs, and among the outputs.
constexpr size_t kIn = 4, kOut = 3, kScalars = 4;

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.size() < kIn + kScalars || in.size() % kIn != 0) {
    throw ShapeError(
        fmt::format("takes four tensors for each parameter and four scalars, not {}", in.size()));
  }
  for (const char* name : {"beta1", "beta2", "eps", "weight_decay"}) {
    attrs.number(name);
  }
  const size_t parameters = in.size() / kIn - 1;
  const int64_t decayed = attrs.integer("decayed");
  if (decayed < 0 || decayed > static_cast<int64_t>(parameters)) {
    throw ShapeError(fmt::format("{} of {} parameters decay", decayed, parameters));
  }
  Types results;
  for (size_t i = 0; i < parameters; ++i) {
    const TensorType& p = in[kIn * i];
    if (!is_floating(p.dtype)) {
      throw ShapeError(fmt::format("is not defined for {}", name_of(p.dtype)));
    }
    for (const TensorType& type : in.subspan(kIn * i + 1, kIn - 1)) {
      if (!(type == p)) {
        throw ShapeError(fmt::format("the parameter is {}, its gradient or moment {}", to_string(p),
                                     to_string(type)));
      }
    }
    const TensorType scalar{accumulation_dtype(p.dtype), {}};
    for (const TensorType& type : in.last(kScalars)) {
      if (!(type == scalar)) {
        throw ShapeError(fmt::format("a scalar is {}, not {}", to_string(type), to_string(scalar)));
      }
    }
    results.insert(results.end(), {p, p, p});
  }
  return results;
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const double beta1 = attrs.number("beta1");
  const double beta2 = attrs.number("beta2");
  const auto scalars = in.last(kScalars);
  const auto decayed = static_cast<size_t>(attrs.integer("decayed"));
  Tensors results;
  for (size_t i = 0; i + 1 < in.size() / kIn; ++i) {
    const auto x = in.subspan(kIn * i, kIn);
    const Dtype dtype = x[0].dtype();
    const Tensor p = widened(x[0]);
    const Tensor g = widened(x[1]) * scalars[1];
    const Tensor m = beta1 * widened(x[2]) + (1 - beta1) * g;
    const Tensor v = beta2 * widened(x[3]) + (1 - beta2) * (g * g);
    Tensor step = m / scalars[2] / (sqrt(v / scalars[3]) + attrs.number("eps"));
    if (i < decayed) {
      step = step + attrs.number("weight_decay") * p;
    }
    results.insert(results.end(),
                   {cast(p - scalars[0] * step, dtype), cast(m, dtype), cast(v, dtype)});
  }
  return results;
}

// Elements are independent where all share the scalars.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  const size_t tensors = in.size() - kScalars;
  for (size_t i = tensors; i < in.size(); ++i) {
    if (batched[i]) {
      return batch_by_decomposition(op, attrs, in, batched, size);
    }
  }
  Tensors inputs = batch_all(in.first(tensors), batched.first(tensors), size);
  inputs.insert(inputs.end(), in.end() - kScalars, in.end());
  return apply(op, inputs, attrs, kHere);
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  Cost total = elementwise_cost(in, out, 0);
  for (size_t i = 0; i < out.size(); i += kOut) {
    total.flops += 18 * static_cast<double>(out[i].elements());
  }
  return total;
}

Sample sample(Dtype t, std::initializer_list<Shape> shapes, int64_t decayed) {
  Sample result;
  for (const Shape& shape : shapes) {
    const TensorType p{t, shape};
    result.inputs.insert(result.inputs.end(),
                         {{p, -1, 1}, {p, -1, 1}, {p, -0.5, 0.5}, {p, 0.1, 1}});
  }
  const TensorType scalar{accumulation_dtype(t), {}};
  result.inputs.insert(
      result.inputs.end(),
      {{scalar, 0.01, 0.1}, {scalar, 0.5, 1}, {scalar, 0.1, 0.9}, {scalar, 0.05, 0.9}});
  result.attrs = {
      {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"decayed", decayed}};
  return result;
}

std::vector<Sample> samples(Dtype t) {
  return {sample(t, {{}}, 1),      sample(t, {{1}}, 0),
          sample(t, {{3, 33}}, 1), sample(t, {{2, 1030}}, 0),
          sample(t, {{0, 4}}, 1),  sample(t, {{3, 33}, {}, {1, 1030}}, 2)};
}

constexpr OpDef kDefs[] = {{.name = "adamw",
                            .infer = infer,
                            .jvp = jvp_by_decomposition,
                            .vjp = vjp_by_decomposition,
                            .batch = batch,
                            .decompose = decompose,
                            .cost = cost,
                            .layout = layout::alike,
                            .samples = samples}};

}  // namespace

std::span<const OpDef> adamw_ops() { return kDefs; }

AdamwState adamw_update(const AdamwState& state, const Arg& gradient, const AdamwScalars& scalars,
                        const AdamwOptions& options) {
  const Tensors inputs{
      state.parameter,     gradient.tensor(),  state.m, state.v, scalars.lr, scalars.grad_scale,
      scalars.correction1, scalars.correction2};
  const Attrs attrs{{"beta1", options.beta1},
                    {"beta2", options.beta2},
                    {"eps", options.eps},
                    {"weight_decay", options.weight_decay},
                    {"decayed", int64_t{options.weight_decay != 0 ? 1 : 0}}};
  const Tensors results = apply(kDefs[0], inputs, attrs, gradient.where());
  return {results[0], results[1], results[2]};
}

}  // namespace mstrain
