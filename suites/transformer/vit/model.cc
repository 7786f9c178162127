#include "suites/transformer/vit/model.h"

#include <algorithm>
#include <cmath>

#include "core/nn/attention.h"
#include "core/nn/layers.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dot_general.h"
#include "core/ops/einsum.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/stage.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain::vit {
namespace {

// Positions of a grid of side * side patches, after the class token's, for one of height * width.
Tensor interpolated(const Tensor& positions_1nc, int64_t side, int64_t height, int64_t width) {
  const int64_t c = positions_1nc.dim(2);
  const auto resize = [&](const char* how, const Tensor& x, int64_t to) {
    const Tensor weights = cast(tensor<double>(bicubic_weights(side, to), {to, side}), x.dtype());
    return einsum(how, {weights, x});
  };
  const Dtype dtype = positions_1nc.dtype();
  const Tensor patches = slice(positions_1nc, 1, 1, side * side + 1);
  const Tensor grid_ijc =
      reshape(cast(patches, dtype == Dtype::kF64 ? dtype : Dtype::kF32), {side, side, c});
  const Tensor rows_yjc = resize("yi,ijc->yjc", grid_ijc, height);
  const Tensor all_yxc = resize("xj,yjc->yxc", rows_yjc, width);
  const Tensor parts[] = {slice(positions_1nc, 1, 0, 1),
                          cast(reshape(all_yxc, {1, height * width, c}), dtype)};
  return concat(parts, 1);
}

}  // namespace

std::vector<double> bicubic_weights(int64_t from, int64_t to) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };  // x <= 1
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };  // above
  std::vector<double> weights(static_cast<size_t>(from * to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double place = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const double floor = std::floor(place);
    const double t = place - floor;
    const double taps[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int64_t tap = 0; tap < 4; ++tap) {
      const int64_t at = std::clamp<int64_t>(static_cast<int64_t>(floor) + tap - 1, 0, from - 1);
      weights[static_cast<size_t>(i * from + at)] += taps[tap];
    }
  }
  return weights;
}

Vit::Vit(const VitConfig& config, Recompute recompute) : config_(config), recompute_(recompute) {
  check_config(config);
  if (config.num_classes.is_word()) {
    throw ConfigError("model.num_classes: the model needs a number");
  }
}

Tensor Vit::operator()(const Params& p, const Tensor& pixels_bchw) const {
  const Tensor features_bc = features(p, pixels_bchw);
  const NameScope scope("classifier");
  return multiply(features_bc, head_weight(p)) + head_bias(p);
}

Tensor Vit::features(const Params& p, const Tensor& pixels_bchw) const {
  const Params vit = p / "vit";
  Tensor x_btc = embed(vit / "embeddings", pixels_bchw);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const auto layer = [&](const Tensor& x) { return block(vit / "encoder" / "layer" / i, x, i); };
    x_btc = model_layer(i, recompute_, layer, x_btc);
  }
  const Tensor last_btc = stage_point(x_btc, config_.num_layers);
  return layer_norm(vit / "layernorm", select(last_btc, 1, 0), config_.norm.eps);
}

Weight Vit::head_weight(const Params& p) const {
  return (p / "classifier")
      .weight("weight", {*config_.num_classes.value, config_.hidden_size}, {}, weights());
}

Tensor Vit::head_bias(const Params& p) const {
  return (p / "classifier").get("bias", {*config_.num_classes.value}, zeros_init(), false);
}

Tensor Vit::embed(const Params& p, const Tensor& pixels_bchw) const {
  const NameScope scope = NameScope::absolute(p.path());
  const int64_t side = config_.grid();
  const int64_t c = config_.hidden_size;
  const Tensor token_11c = p.get("cls_token", {1, 1, c}, weights(), false);
  Tensor positions_1tc = p.get("position_embeddings", {1, side * side + 1, c}, weights(), false);
  const Tensor patches_byxc = patches(p / "patch_embeddings" / "projection", pixels_bchw);
  const int64_t batch = patches_byxc.dim(0);
  const int64_t height = patches_byxc.dim(1);
  const int64_t width = patches_byxc.dim(2);
  if (height != side || width != side) {
    positions_1tc = interpolated(positions_1tc, side, height, width);
  }
  const Tensor parts[] = {broadcast_to(token_11c, {batch, 1, c}),
                          reshape(patches_byxc, {batch, height * width, c})};
  return dropout(p / "dropout", concat(parts, 1) + positions_1tc, config_.dropout.hidden);
}

// A convolution that meets each pixel once is one product: [b, y, x, hidden_size].
Tensor Vit::patches(const Params& p, const Tensor& pixels_bchw) const {
  const NameScope scope = NameScope::absolute(p.path());
  const Shape& shape = pixels_bchw.shape();
  const int64_t size = config_.patch_size;
  check(shape.rank() == 4 && shape[1] == config_.num_channels && shape[2] > 0 && shape[3] > 0 &&
            shape[2] % size == 0 && shape[3] % size == 0,
        "images are {}; expected [batch, {}, height, width] with height and width multiples of "
        "model.patch_size {}",
        to_string(shape), config_.num_channels, size);
  const Tensor weight =
      p.get("weight", {config_.hidden_size, config_.num_channels, size, size}, weights());
  const Tensor bias = p.get("bias", {config_.hidden_size}, zeros_init(), false);
  const Tensor cut =
      reshape(pixels_bchw, {shape[0], shape[1], shape[2] / size, size, shape[3] / size, size});
  return dot_general(cast(cut, weight.dtype()), weight, {"bcyixj", "ocij", "byxo"}) + bias;
}

Tensor Vit::block(const Params& p, const Tensor& x_btc, int64_t layer) const {
  const NameScope scope = NameScope::absolute(p.path());
  // The head reads the class token alone: of the last block nothing else is computed.
  const int64_t read = layer + 1 == config_.num_layers ? 1 : x_btc.dim(1);
  const Tensor y_brc = slice(x_btc, 1, 0, read) + self_attention(p, x_btc, read);
  return y_brc + feed_forward(p, y_brc);
}

Tensor Vit::self_attention(const Params& block, const Tensor& x_btc, int64_t read) const {
  const Params p = block / "attention";
  const NameScope scope = NameScope::absolute(p.path());
  const auto project = [&](const char* name, const Tensor& x) {
    const auto product = [&](const Tensor& input) {
      return linear(p / "attention" / name,
                    layer_norm(block / "layernorm_before", input, config_.norm.eps),
                    {config_.num_attention_heads, config_.head_dim()},
                    {.bias = config_.qkv_bias, .out_first = true, .weight_init = weights()});
    };
    return recomputed_cheaply(recompute_, product, x);
  };
  const Tensor q_brhd = project("query", slice(x_btc, 1, 0, read));
  const Tensor k_bthd = project("key", x_btc);
  const Tensor v_bthd = project("value", x_btc);
  const Tensor out_brhd =
      attention(p / "attention" / "dropout", q_brhd, k_bthd, v_bthd, config_.dropout.attention);
  const Tensor out_brc = linear(p / "output" / "dense", out_brhd, {config_.hidden_size},
                                {.in_dims = 2, .out_first = true, .weight_init = weights()});
  return dropout(p / "output" / "dropout", out_brc, config_.dropout.hidden);
}

Tensor Vit::feed_forward(const Params& block, const Tensor& x_btc) const {
  const LinearOptions options{.out_first = true, .weight_init = weights()};
  const auto widen = [&](const Tensor& x) {
    return linear(block / "intermediate" / "dense",
                  layer_norm(block / "layernorm_after", x, config_.norm.eps), {config_.ffn_dim()},
                  options);
  };
  const auto narrow = [&](const Tensor& x) {
    return linear(block / "output" / "dense", activate(config_.activation, x),
                  {config_.hidden_size}, options);
  };
  const Tensor out_btc =
      recomputed_cheaply(recompute_, narrow, recomputed_cheaply(recompute_, widen, x_btc));
  return dropout(block / "output" / "dropout", out_btc, config_.dropout.hidden);
}

Init Vit::weights() const { return normal_init(config_.init.std); }

CrossEntropySums Vit::losses(const Params& p, const Tensor& pixels_bchw,
                             const VitTargets& targets) const {
  const double smoothing = current_context().training ? config_.label_smoothing : 0.0;
  const Tensor& labels = targets.labels_b;
  if (!targets.others_b.defined()) {
    const Tensor features_bc = features(p, pixels_bchw);
    const Tensor weight = numbers(head_weight(p));
    const Tensor bias = head_bias(p);
    const NameScope scope("classifier");
    return linear_cross_entropy(
        features_bc, weight, labels,
        {.bias = bias, .transpose_weight = true, .label_smoothing = smoothing});
  }
  const Tensor logits_bn = (*this)(p, pixels_bchw);
  const int64_t classes = logits_bn.dim(1);
  const Tensor share_b1 = expand_dims(targets.shares_b, 1);
  const Tensor mixed_bn = share_b1 * one_hot(maximum(labels, 0), classes) +
                          (1 - share_b1) * one_hot(maximum(targets.others_b, 0), classes);
  const Tensor counted_b = not_equal(labels, -100);
  const Tensor loss_b =
      soft_cross_entropy_rows(logits_bn, where(expand_dims(counted_b, 1), mixed_bn, 0), smoothing);
  const Tensor right_b = logical_and(counted_b, equal(argmax(logits_bn), labels));
  return {sum(loss_b), sum(cast(counted_b, Dtype::kI32)), sum(cast(right_b, Dtype::kI32))};
}

std::vector<ParamSpec> Vit::specs() const {
  // What ranks along `tensor` can share.
  static constexpr SharedDim kTable[] = {
      {"query.weight", 0},
      {"query.bias", 0},
      {"key.weight", 0},
      {"key.bias", 0},
      {"value.weight", 0},
      {"value.bias", 0},
      {"output.dense.weight", 1},  // of attention and of the layer
      {"intermediate.dense.weight", 0},
      {"intermediate.dense.bias", 0}};
  // A norm that several products read would be declared in the first of the functions that are computed again.
  const auto model = [plain = Vit(config_)](const Params& p) {
    const VitConfig& config = plain.config();
    plain(p, zeros({Dtype::kF32, {1, config.num_channels, config.image_size, config.image_size}}));
  };
  return shared(declare_params(model), kTable);
}

}  // namespace mstrain::vit
