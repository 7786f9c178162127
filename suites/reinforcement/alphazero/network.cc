#include "suites/reinforcement/alphazero/network.h"

#include "core/nn/attention.h"
#include "core/nn/conv.h"
#include "core/nn/layers.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain::alphazero {
namespace {

constexpr int64_t kHeadChannels = 4;  // of a cell, that a head reads

Tensor conv(const Params& p, const Tensor& x_bchw, int64_t channels, int64_t size) {
  const int64_t side = size / 2;
  return conv2d(p, x_bchw, channels, {size, size},
                {.conv = {.padding = {side, side, side, side}},
                 .weight_init = kaiming_normal(x_bchw.dim(1) * size * size)});
}

Tensor flat(const Tensor& x) { return reshape(x, {x.dim(0), -1}); }

}  // namespace

PolicyValueNetwork::PolicyValueNetwork(const NetworkConfig& config, const BoardGame& game)
    : config_(config),
      input_{game.planes(), game.rows(), game.columns()},
      actions_(game.actions()) {}

PolicyValue PolicyValueNetwork::operator()(const Params& p, const Tensor& boards_bchw) const {
  // None are there yet where they are declared.
  const Dtype computed_in = p.size() == 0 ? boards_bchw.dtype() : p.tensor(0).dtype();
  const Tensor x_bchw = cast(boards_bchw, computed_in);
  const Features features = config_.type == NetworkConfig::Type::kResidual ? residual(p, x_bchw)
                            : config_.type == NetworkConfig::Type::kMlp    ? mlp(p, x_bchw)
                                                                           : transformer(p, x_bchw);
  // Small last layers: what has not been learned yet is taken for even, and all actions for alike.
  const LinearOptions last{.weight_init = normal_init(0.01)};
  const Tensor logits_ba = linear(p / "policy" / "out", features.policy_bf, {actions_}, last);
  const Tensor hidden_bf =
      relu(linear(p / "value" / "hidden", features.value_bf, {config_.head_width},
                  {.weight_init = kaiming_normal(features.value_bf.dim(1))}));
  const Tensor value_b1 = tanh(linear(p / "value" / "out", hidden_bf, {1}, last));
  return {cast(logits_ba, Dtype::kF32), cast(reshape(value_b1, {-1}), Dtype::kF32)};
}

PolicyValueNetwork::Features PolicyValueNetwork::residual(const Params& p,
                                                          const Tensor& x_bchw) const {
  Tensor y_bchw = relu(conv(p / "stem", x_bchw, config_.width, 3));
  for (int64_t i = 0; i < config_.blocks; ++i) {
    const Params block = p / "blocks" / i;
    const Tensor inner_bchw = relu(conv(block / "conv_1", y_bchw, config_.width, 3));
    const Tensor scale_1 = block.get("scale", {1}, zeros_init(), false);
    y_bchw = relu(y_bchw + scale_1 * conv(block / "conv_2", inner_bchw, config_.width, 3));
  }
  return {flat(relu(conv(p / "policy" / "conv", y_bchw, kHeadChannels, 1))),
          flat(relu(conv(p / "value" / "conv", y_bchw, kHeadChannels, 1)))};
}

PolicyValueNetwork::Features PolicyValueNetwork::mlp(const Params& p, const Tensor& x_bchw) const {
  Tensor y_bf = flat(x_bchw);
  for (int64_t i = 0; i < config_.blocks; ++i) {
    y_bf = relu(linear(p / "blocks" / i, y_bf, {config_.width},
                       {.weight_init = kaiming_normal(y_bf.dim(1))}));
  }
  return {y_bf, y_bf};
}

PolicyValueNetwork::Features PolicyValueNetwork::transformer(const Params& p,
                                                             const Tensor& x_bchw) const {
  const int64_t cells = input_[1] * input_[2];
  const int64_t c = config_.width;
  const Tensor cells_btp = transpose(reshape(x_bchw, {x_bchw.dim(0), input_[0], cells}), {0, 2, 1});
  Tensor y_btc = linear(p / "embed", cells_btp, {c}, {.weight_init = xavier_normal(input_[0], c)}) +
                 p.get("positions", {cells, c}, normal_init(0.02), false);
  for (int64_t i = 0; i < config_.blocks; ++i) {
    const Params block = p / "blocks" / i;
    const Tensor seen_btc = layer_norm(block / "norm_1", y_btc);
    y_btc +=
        multi_head_attention(block / "attention", seen_btc, seen_btc, {.heads = config_.heads});
    const Tensor wide_btf = gelu(linear(block / "wide", layer_norm(block / "norm_2", y_btc),
                                        {4 * c}, {.weight_init = xavier_normal(c, 4 * c)}));
    y_btc += linear(block / "narrow", wide_btf, {c}, {.weight_init = xavier_normal(4 * c, c)});
  }
  const Tensor out_btc = layer_norm(p / "norm", y_btc);
  const auto head = [&](const char* name) {
    return flat(gelu(linear(p / name / "cells", out_btc, {kHeadChannels},
                            {.weight_init = xavier_normal(c, kHeadChannels)})));
  };
  return {head("policy"), head("value")};
}

std::vector<ParamSpec> PolicyValueNetwork::specs() const {
  return declare_params([this](const Params& p) {
    (*this)(p, zeros({Dtype::kF32, {1, input_[0], input_[1], input_[2]}}));
  });
}

}  // namespace mstrain::alphazero
