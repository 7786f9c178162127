#include "core/nn/layers.h"

#include "core/nn/lora.h"
#include "core/nn/random_scope.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

// Dims [first, last) of `shape`.
Shape dims(const Shape& shape, int first, int last) {
  return Shape(std::span(shape.begin() + first, shape.begin() + last));
}

Shape joined(Shape a, const Shape& b) {
  for (int64_t dim : b) {
    a.push_back(dim);
  }
  return a;
}

}  // namespace

Tensor linear(const Params& p, const Tensor& x, const Shape& out, const LinearOptions& options) {
  const NameScope scope = NameScope::absolute(p.path());
  const int leading = x.rank() - options.in_dims;
  check(leading >= 0, "{}: the input {} has less than {} dims", p.path(), to_string(x.shape()),
        options.in_dims);
  const Shape in = dims(x.shape(), leading, x.rank());
  const Init weight_init = options.weight_init.value_or(fan_in_uniform(in.elements()));
  const Weight weight =
      p.weight("weight", options.out_first ? joined(out, in) : joined(in, out),
               {.in_dims = options.in_dims, .out_first = options.out_first}, weight_init);
  const Tensor y = multiply(x, weight);
  const LinearLayer layer{p.path(), in, out, options.out_first};
  if (!options.bias) {
    return with_adapter(p, layer, x, y);
  }
  const Init otherwise = options.weight_init ? zeros_init() : weight_init;
  const Tensor bias = p.get("bias", out, options.bias_init.value_or(otherwise), false);
  return with_adapter(p, layer, x, y + bias);
}

Tensor embedding(const Params& p, const Tensor& ids, int64_t count, int64_t width,
                 const Init& init) {
  const NameScope scope = NameScope::absolute(p.path());
  return embedding(p.weight("weight", {count, width}, {}, init), ids);
}

Tensor layer_norm(const Params& p, const Tensor& x, double eps) {
  const NameScope scope = NameScope::absolute(p.path());
  const Shape n{x.dim(-1)};
  const Tensor weight = p.get("weight", n, ones_init(), false);
  const Tensor bias = p.get("bias", n, zeros_init(), false);
  return layer_norm(x, weight, bias, eps);
}

Tensor rms_norm(const Params& p, const Tensor& x, double eps) {
  const NameScope scope = NameScope::absolute(p.path());
  return rms_norm(x, p.get("weight", {x.dim(-1)}, ones_init(), false), eps);
}

Tensor dropout(const Params& p, const Tensor& x, double rate) {
  if (rate == 0 || !current_context().training) {
    return x;
  }
  const NameScope scope = NameScope::absolute(p.path());
  return dropout(x, rate, RandomScope::key(p.path()),
                 {.site = "dropout", .part = RandomScope::part(p.path(), x.shape())});
}

Tensor mlp(const Params& p, Tensor x, const Shape& widths, Activation activation) {
  for (int i = 0; i < widths.rank(); ++i) {
    x = linear(p / i, i == 0 ? x : activate(activation, x), {widths[i]});
  }
  return x;
}

}  // namespace mstrain
