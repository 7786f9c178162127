// The `precision` section of a run: in which types parameters, gradients and what the optimizer keeps are stored.
#pragma once

#include "core/base/config.h"
#include "core/runtime/dtype.h"

namespace mstrain {

enum class FloatType { kFp32, kBf16, kFp16 };
enum class MasterType { kFp32, kNone };
enum class MomentType { kFp32, kBf16, kInt8 };
enum class ProductType { kParams, kFp8 };

struct DynamicWord {
  static constexpr const char* kText = "dynamic";
};
using LossScale = AutoOr<NoneOr<OrWord<double, DynamicWord>>>;

struct PrecisionConfig {
  FloatType params = FloatType::kFp32;
  FloatType grads = FloatType::kFp32;
  MasterType master = MasterType::kFp32;
  MomentType moments = MomentType::kFp32;
  ProductType products = ProductType::kParams;
  int64_t fp8_history = 1024;
  int64_t fp8_margin = 0;
  LossScale loss_scale;
  double loss_scale_init = 65536;
  double loss_scale_growth = 2;
  double loss_scale_backoff = 0.5;
  int64_t loss_scale_interval = 2000;
  double loss_scale_min = 1;

  template <class V>
  void fields(V& v) {
    v("params", params, "of parameters and of what is computed with them",
      rule::one_of({"fp32", "bf16", "fp16"})
          .elsewhere_called({"dtype", "torch_dtype", "bf16", "fp16", "mixed_precision"}));
    v("grads", grads, "of gradients summed up over micro-batches: fp32, or that of params",
      rule::one_of({"fp32", "bf16", "fp16"}));
    v("master", master,
      "of the copy of bf16 and fp16 parameters that is updated; none: bf16 parameters are updated "
      "themselves, with stochastic rounding",
      rule::one_of({"fp32", "none"}));
    v("moments", moments,
      "of what the optimizer keeps: fp32, bf16 with stochastic rounding, or blocks of int8",
      rule::one_of({"fp32", "bf16", "int8"}));
    v("products", products,
      "of what layers multiply with their weights while training: params, as everything else; "
      "fp8: E4M3 forward, E5M2 for gradients, in units that the last steps decide",
      rule::one_of({"params", "fp8"}).elsewhere_called({"fp8", "fp8_format", "fp8_recipe"}));
    v("fp8_history", fp8_history, "fp8: of how many steps the largest magnitudes are remembered",
      rule::at_least(1).at_most(65536).elsewhere_called({"fp8_amax_history_len"}));
    v("fp8_margin", fp8_margin, "fp8: powers of two that are left above the largest magnitude",
      rule::at_least(-8).at_most(8));
    v("loss_scale", loss_scale,
      "factor of the loss while gradients are computed: a number, dynamic or none; auto: dynamic "
      "for fp16",
      rule::positive());
    v("loss_scale_init", loss_scale_init, "dynamic: the factor of the first step",
      rule::positive());
    v("loss_scale_growth", loss_scale_growth,
      "dynamic: its change after loss_scale_interval steps without overflow", rule::at_least(1));
    v("loss_scale_backoff", loss_scale_backoff, "dynamic: its change after an overflow",
      rule::above(0).below(1));
    v("loss_scale_interval", loss_scale_interval, "dynamic: steps until it grows",
      rule::at_least(1).at_most(2147483647));
    v("loss_scale_min", loss_scale_min, "dynamic: the least factor; an overflow there ends the run",
      rule::positive());
  }

  Dtype param_dtype() const;
  // Of gradients that are summed up over several micro-batches; that of a single one has param_dtype().
  Dtype grad_dtype() const;
  bool has_master() const { return params != FloatType::kFp32 && master == MasterType::kFp32; }
  bool has_float8() const { return products == ProductType::kFp8; }
  bool scales_dynamically() const;
  // The factor that stays, or that a dynamic one begins with; 1 without scaling.
  double first_loss_scale() const;
  // Whether an optimizer that is told of no overflow does what it does without this section.
  bool is_plain() const {
    return params == FloatType::kFp32 && moments == MomentType::kFp32 && !scales_dynamically();
  }
};

// What one key alone cannot tell. Throws ConfigError, with the line where `tree`, the whole configuration, is what
// `config` was read from.
void check_precision_config(const PrecisionConfig& config, const YamlNode& tree = YamlNode());

}  // namespace mstrain
