// adamw{beta1, beta2, eps, weight_decay}:
//   (p, g, m, v, lr[], grad_scale[], correction1[], correction2[]) -> (p', m', v')
#include "core/ops/adamw.h"

#include "core/ops/accumulate.h"
#include "core/ops/build.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 8);
  for (const char* name : {"beta1", "beta2", "eps", "weight_decay"}) {
    attrs.number(name);
  }
  const TensorType& p = in[0];
  if (!is_floating(p.dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(p.dtype)));
  }
  for (const TensorType& type : in.subspan(1, 3)) {
    if (!(type == p)) {
      throw ShapeError(fmt::format("the parameter is {}, its gradient or moment {}", to_string(p),
                                   to_string(type)));
    }
  }
  const TensorType scalar{accumulation_dtype(p.dtype), {}};
  for (const TensorType& type : in.last(4)) {
    if (!(type == scalar)) {
      throw ShapeError(fmt::format("a scalar is {}, not {}", to_string(type), to_string(scalar)));
    }
  }
  return {p, p, p};
}

Tensors decompose(const Attrs& attrs, std::span<const Tensor> in) {
  const double beta1 = attrs.number("beta1");
  const double beta2 = attrs.number("beta2");
  const Dtype dtype = in[0].dtype();
  const Tensor p = widened(in[0]);
  const Tensor g = widened(in[1]) * in[5];
  const Tensor m = beta1 * widened(in[2]) + (1 - beta1) * g;
  const Tensor v = beta2 * widened(in[3]) + (1 - beta2) * (g * g);
  const Tensor step =
      m / in[6] / (sqrt(v / in[7]) + attrs.number("eps")) + attrs.number("weight_decay") * p;
  return {cast(p - in[4] * step, dtype), cast(m, dtype), cast(v, dtype)};
}

// Elements are independent where all share the scalars.
Tensors batch(const OpDef& op, const Attrs& attrs, std::span<const Tensor> in,
              std::span<const bool> batched, int64_t size) {
  for (size_t i = 4; i < in.size(); ++i) {
    if (batched[i]) {
      return batch_by_decomposition(op, attrs, in, batched, size);
    }
  }
  Tensors inputs = batch_all(in.first(4), batched.first(4), size);
  inputs.insert(inputs.end(), in.begin() + 4, in.end());
  return apply(op, inputs, attrs, kHere);
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  return elementwise_cost(in, out, 6);
}

std::vector<Sample> samples(Dtype t) {
  std::vector<Sample> result;
  const TensorType scalar{accumulation_dtype(t), {}};
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{3, 33}, Shape{2, 1030}, Shape{0, 4}}) {
    const TensorType p{t, shape};
    result.push_back({{{p, -1, 1},
                       {p, -1, 1},
                       {p, -0.5, 0.5},
                       {p, 0.1, 1},
                       {scalar, 0.01, 0.1},
                       {scalar, 0.5, 1},
                       {scalar, 0.1, 0.9},
                       {scalar, 0.05, 0.9}},
                      {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}}});
  }
  return result;
}

constexpr OpDef kDefs[] = {{.name = "adamw",
                            .infer = infer,
                            .jvp = jvp_by_decomposition,
                            .vjp = vjp_by_decomposition,
                            .batch = batch,
                            .decompose = decompose,
                            .cost = cost,
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
                    {"weight_decay", options.weight_decay}};
  const Tensors results = apply(kDefs[0], inputs, attrs, gradient.where());
  return {results[0], results[1], results[2]};
}

}  // namespace mstrain
