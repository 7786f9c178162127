#include "suites/recommender/models/parts.h"

#include "core/nn/batch_norm.h"
#include "core/nn/layers.h"
#include "core/ops/einsum.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/shape.h"

namespace mstrain::recommender {

namespace {

// linear(p, side_by_side(x), {width})
Tensor first_layer(const Params& p, const Features& x, int64_t width) {
  const NameScope scope = NameScope::absolute(p.path());
  const Tensor rest_bk = flatten(x.vectors_bfd, 1);
  const int64_t n = x.numbers_bn.dim(1);
  const int64_t d = x.vectors_of_numbers_bnd.dim(2);
  const int64_t in = n * d + rest_bk.dim(1);
  const Init init = fan_in_uniform(in);
  const Tensor weight = numbers(p.weight("weight", {in, width}, {.out_first = false}, init));
  const Tensor bias = p.get("bias", {width}, init, /*decay=*/false);
  const Tensor alike_nd = squeeze(slice(x.vectors_of_numbers_bnd, 0, 0, 1), 0);
  const Tensor products_nh =
      einsum("nd,ndh->nh", {alike_nd, reshape(slice(weight, 0, 0, n * d), {n, d, width})});
  return matmul(rest_bk, slice(weight, 0, n * d, in)) + matmul(x.numbers_bn, products_nh) + bias;
}

template <class First>
Tensor layers(const Params& p, const TowerConfig& config, const First& first) {
  Tensor x;
  for (size_t i = 0; i < config.hidden.size(); ++i) {
    const Params layer = p / static_cast<int64_t>(i);
    x = i == 0 ? first(layer, config.hidden[0]) : linear(layer, x, {config.hidden[i]});
    if (config.batch_norm) {
      const auto& [samples, momentum, eps] = *config.batch_norm;
      x = batch_norm(layer / "norm", x,
                     {.momentum = momentum, .eps = eps, .samples = samples.value_or(0)});
    }
    x = dropout(layer / "dropout", activate(config.activation, x), config.dropout);
  }
  return x;
}

}  // namespace

Tensor all_vectors(const Features& x) {
  if (!x.numbers_bn.defined()) {
    return x.vectors_bfd;
  }
  const Tensor multiplied_bnd = x.vectors_of_numbers_bnd * expand_dims(x.numbers_bn, 2);
  const Tensor parts[] = {multiplied_bnd, x.vectors_bfd};
  return x.vectors_bfd.defined() ? concat(parts, 1) : multiplied_bnd;
}

Tensor side_by_side(const Features& x) {
  const Tensor flat = flatten(all_vectors(x), 1);
  if (!x.numeric_bn.defined()) {
    return flat;
  }
  const Tensor parts[] = {x.numeric_bn, flat};
  return concat(parts, 1);
}

Tensor tower(const Params& p, Tensor x, const TowerConfig& config) {
  return config.hidden.empty() ? x : layers(p, config, [&](const Params& layer, int64_t width) {
    return linear(layer, x, {width});
  });
}

Tensor tower(const Params& p, const Features& x, const TowerConfig& config) {
  if (!x.numbers_bn.defined() || !x.vectors_bfd.defined() || config.hidden.empty()) {
    return tower(p, side_by_side(x), config);
  }
  return layers(p, config,
                [&](const Params& layer, int64_t width) { return first_layer(layer, x, width); });
}

Tensor unit(const Params& p, const Tensor& x) { return squeeze(linear(p, x, {1}), 1); }

Tensor log_losses(const Tensor& logits_b, const Tensor& labels_b) {
  return softplus(logits_b) - logits_b * labels_b;
}

}  // namespace mstrain::recommender
