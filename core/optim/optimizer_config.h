// The `optimizer` section of a run.
#pragma once

#include <array>
#include <optional>

#include "core/base/config.h"

namespace mstrain {

enum class OptimizerType { kSgd, kAdam, kAdamW, kAdagrad, kRmsProp, kLamb, kMuon };

struct OptimizerConfig {
  OptimizerType type = OptimizerType::kAdamW;
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool nesterov = false;
  double alpha = 0.99;
  std::optional<double> clip_grad = 1.0;

  template <class V>
  void fields(V& v) {
    v("type", type, "update rule",
      rule::one_of({"sgd", "adam", "adamw", "adagrad", "rmsprop", "lamb", "muon"})
          .elsewhere_called({"optim", "optimizer_type", "optimizer_name"}));
    v("lr", lr, "peak learning rate",
      rule::at_least(0).at_most(1e30).elsewhere_called({"learning_rate", "max_lr", "peak_lr"}));
    v("betas", betas, "adam, adamw, lamb, muon: decay of the two moments",
      rule::at_least(0).below(1).elsewhere_called({"beta1", "beta2", "adam_beta1", "adam_beta2"}));
    v("eps", eps, "added to the root of the second moment",
      rule::at_least(1e-30).elsewhere_called({"adam_epsilon", "adam_eps", "epsilon"}));
    v("weight_decay", weight_decay,
      "of matrices; decoupled in adamw, lamb and muon, else added to the gradient",
      rule::at_least(0));
    v("momentum", momentum, "sgd, rmsprop, muon: decay of the velocity",
      rule::at_least(0).below(1));
    v("nesterov", nesterov, "sgd, muon: look ahead by one step of momentum");
    v("alpha", alpha, "rmsprop: decay of the second moment", rule::at_least(0).below(1));
    v("clip_grad", clip_grad, "largest global norm of the gradients; null: no clipping",
      rule::positive().elsewhere_called(
          {"grad_clip", "max_grad_norm", "clip_norm", "gradient_clipping", "clip_grad_norm"}));
  }
};

std::string_view name_of(OptimizerType type);

// What one key alone cannot tell: a key that the rule does not use must have its default. Throws ConfigError, with the
// line where `tree`, the whole configuration, is what `config` was read from.
void check_optimizer_config(const OptimizerConfig& config, const YamlNode& tree = YamlNode());

}  // namespace mstrain
