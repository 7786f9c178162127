// Vision Transformer (Dosovitskiy et al. 2021): an encoder of pre-norm blocks over the patches of an image and a class token,
// from which a linear head tells the label.
// Parameters carry the names of Hugging Face's ViTForImageClassification and keep their logical dims (see hf_names.h).
#pragma once

#include "core/nn/model_layer.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/tensor/params.h"
#include "suites/transformer/vit/config.h"

namespace mstrain::vit {

// The right answer of an image: `label`, or a mixture of it and another one. A label of -100 is not counted.
struct VitTargets {
  Tensor labels_b;  // i32
  Tensor others_b;  // i32; null: there is no other
  Tensor shares_b;  // f32, of `labels` in the mixture
};

class Vit {
 public:
  // `config.num_classes` must be a number. Throws ConfigError for a configuration that check_config() rejects.
  explicit Vit(const VitConfig& config, Recompute recompute = Recompute::kNone);

  const VitConfig& config() const { return config_; }

  // pixels[b, channels, height, width], height and width multiples of patch_size -> logits[b, classes]. Positions are those
  // of image_size, interpolated where the image has another grid of patches.
  Tensor operator()(const Params& p, const Tensor& pixels_bchw) const;
  // The class token after the last norm: [b, hidden_size].
  Tensor features(const Params& p, const Tensor& pixels_bchw) const;

  // Cross-entropy: sums. Labels are smoothed in a context that is training; `correct` counts `labels`.
  CrossEntropySums losses(const Params& p, const Tensor& pixels_bchw,
                          const VitTargets& targets) const;

  // Every parameter with its initialiser. Nothing is allocated.
  std::vector<ParamSpec> specs() const;

 private:
  Tensor embed(const Params& p, const Tensor& pixels_bchw) const;
  Tensor patches(const Params& p, const Tensor& pixels_bchw) const;
  Tensor block(const Params& p, const Tensor& x_btc, int64_t layer) const;
  // Of the norm of x, for the queries of `read`, some of its positions.
  Tensor self_attention(const Params& block, const Tensor& x_btc, int64_t read) const;
  Tensor feed_forward(const Params& block, const Tensor& x_btc) const;
  Weight head_weight(const Params& p) const;  // [classes, hidden_size]
  Tensor head_bias(const Params& p) const;    // [classes]
  Init weights() const;

  VitConfig config_;
  Recompute recompute_;
};

// [to, from]: what makes `to` values along a line of `from` values by cubic convolution (Keys 1981, a = -0.75), ends repeated,
// the centres of the first and last cell half a cell from the line's ends.
std::vector<double> bicubic_weights(int64_t from, int64_t to);

}  // namespace mstrain::vit
