#include "core/optim/precision_config.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace mstrain {
namespace {

Dtype dtype_of_type(FloatType type) {
  return type == FloatType::kFp32   ? Dtype::kF32
         : type == FloatType::kBf16 ? Dtype::kBF16
                                    : Dtype::kF16;
}

}  // namespace

Dtype PrecisionConfig::param_dtype() const { return dtype_of_type(params); }
Dtype PrecisionConfig::grad_dtype() const { return dtype_of_type(grads); }

bool PrecisionConfig::scales_dynamically() const {
  return loss_scale.is_word() ? params == FloatType::kFp16
                              : !loss_scale.value->is_word() && loss_scale.value->value->is_word();
}

double PrecisionConfig::first_loss_scale() const {
  if (scales_dynamically()) {
    return loss_scale_init;
  }
  return loss_scale.is_word() || loss_scale.value->is_word() ? 1 : *loss_scale.value->value->value;
}

void check_precision_config(const PrecisionConfig& config, const YamlNode& tree) {
  const PrecisionConfig defaults;
  if (config.grads != FloatType::kFp32 && config.grads != config.params) {
    config_fail(tree, "precision.grads",
                "expected fp32 or the type of precision.params, in which gradients are computed");
  }
  if (config.master == MasterType::kNone && config.params == FloatType::kFp16) {
    config_fail(tree, "precision.master",
                "fp16 parameters need one: updates below 6e-8 vanish in fp16; say fp32, or bf16 "
                "for precision.params");
  }
  if (config.master == MasterType::kNone && config.params == FloatType::kFp32) {
    config_fail(tree, "precision.master",
                "parameters in fp32 are their own master; remove the key, or say bf16 for "
                "precision.params");
  }
  if (config.has_float8() && config.params != FloatType::kBf16) {
    config_fail(tree, "precision.products",
                "fp8 has bf16 for everything that is no product; say bf16 for precision.params");
  }
  const auto used_by = [&](const char* user, bool is_used, const char* key, bool is_default) {
    if (!is_used && !is_default) {
      config_fail(tree, fmt::format("precision.{}", key),
                  fmt::format("is used by precision.{} only; remove the key", user));
    }
  };
  const auto unused_without_fp8 = [&](const char* key, bool is_default) {
    used_by("products: fp8", config.has_float8(), key, is_default);
  };
  unused_without_fp8("fp8_history", config.fp8_history == defaults.fp8_history);
  unused_without_fp8("fp8_margin", config.fp8_margin == defaults.fp8_margin);
  const auto unused = [&](const char* key, bool is_default) {
    used_by("loss_scale: dynamic", config.scales_dynamically(), key, is_default);
  };
  unused("loss_scale_init", config.loss_scale_init == defaults.loss_scale_init);
  unused("loss_scale_growth", config.loss_scale_growth == defaults.loss_scale_growth);
  unused("loss_scale_backoff", config.loss_scale_backoff == defaults.loss_scale_backoff);
  unused("loss_scale_interval", config.loss_scale_interval == defaults.loss_scale_interval);
  unused("loss_scale_min", config.loss_scale_min == defaults.loss_scale_min);
  const auto holds = [&](const char* key, double scale) {
    constexpr float kLeast = std::numeric_limits<float>::min();
    constexpr float kMost = std::numeric_limits<float>::max();
    if (!(scale >= static_cast<double>(kLeast) && scale <= static_cast<double>(kMost))) {
      config_fail(tree, fmt::format("precision.{}", key),
                  fmt::format("{} is none of fp32, in which losses are; expected {:.3g} to {:.3g}",
                              scale, kLeast, kMost));
    }
  };
  if (config.scales_dynamically()) {
    holds("loss_scale_init", config.loss_scale_init);
    holds("loss_scale_min", config.loss_scale_min);
  } else {
    holds("loss_scale", config.first_loss_scale());
  }
  if (config.loss_scale_min > config.loss_scale_init) {
    config_fail(tree, "precision.loss_scale_min",
                fmt::format("{} is more than precision.loss_scale_init {}", config.loss_scale_min,
                            config.loss_scale_init));
  }
}

}  // namespace mstrain
