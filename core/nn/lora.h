// Low-rank adapters (Hu et al. 2021): a linear layer whose weight stays as it is learns a product of two thin matrices,
//   y = x W + bias + scale B (A dropout(x)),   scale = alpha / rank, or alpha / sqrt(rank) (Kalajdzievski 2023).
// A layer `q_proj` gets the parameters `q_proj.lora_A.weight` [rank, in...] and `q_proj.lora_B.weight` [out..., rank]. B
// begins with zeros, so that the adapted model begins as the model itself.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "core/ops/weight_code.h"
#include "core/tensor/params.h"

namespace mstrain {

struct AllLinearWord {
  static constexpr const char* kText = "all-linear";
};

// The `model.lora` section.
struct LoraConfig {
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;
  OrWord<std::vector<std::string>, AllLinearWord> targets;
  bool use_rslora = false;
  std::vector<std::string> modules_to_save;
  AutoOr<WeightCode> base;

  template <class V>
  void fields(V& v) {
    v("rank", rank, "width between the two matrices of an adapter",
      rule::at_least(1).elsewhere_called({"r", "lora_r", "lora_rank"}));
    v("alpha", alpha, "what adapters add counts alpha / rank times",
      rule::positive().elsewhere_called({"lora_alpha"}));
    v("dropout", dropout, "of what adapters read",
      rule::at_least(0).below(1).elsewhere_called({"lora_dropout"}));
    v("targets", targets,
      "the linear layers that get adapters: ends of their names, such as q_proj or mlp.down_proj",
      rule::elsewhere_called({"target_modules", "lora_target_modules", "lora_target"}));
    v("use_rslora", use_rslora, "alpha / sqrt(rank) times instead");
    v("modules_to_save", modules_to_save,
      "modules that are trained whole and saved beside the adapters: ends of their names, such as "
      "classifier");
    v("base", base,
      "how the weights of linear layers are kept, which are not trained: bf16, or blocks of int8 "
      "or "
      "nf4 (QLoRA); auto: as precision.params says",
      rule::one_of({"bf16", "int8", "nf4"})
          .elsewhere_called({"quantization", "load_in_4bit", "load_in_8bit", "quantization_bit"}));
  }

  double scale() const;
  // Whether the linear layer of this name gets an adapter: it is a target, or ends with one after a dot, and is not trained whole.
  bool adapts(std::string_view layer) const;
  // Whether the parameter of this name is trained: of an adapter, or of one of modules_to_save.
  bool trains(std::string_view parameter) const;
};

// Whether `name` is one of `ends`, or ends with one after a dot.
bool ends_with_one_of(std::string_view name, std::span<const std::string> ends);

// A linear layer, as the model calls it.
struct LinearLayer {
  std::string path;
  Shape in, out;
  bool out_first = false;  // the weight is [out..., in...], otherwise [in..., out...]
};

// Within this scope, on this thread, layers that `config` adapts have adapters. Scopes nest; the innermost counts. Null: no
// layer has any. `config` must outlive it.
class LoraScope {
 public:
  explicit LoraScope(const LoraConfig* config);
  ~LoraScope();
  LoraScope(const LoraScope&) = delete;
  LoraScope& operator=(const LoraScope&) = delete;

 private:
  const LoraConfig* previous_;
};

// The linear layers that `model` calls on this thread, in order.
std::vector<LinearLayer> linear_layers(const std::function<void()>& model);

// "q_proj.lora_A.weight", "q_proj.lora_B.weight" of a layer; whether a parameter is one of these.
std::string lora_a_name(std::string_view layer);
std::string lora_b_name(std::string_view layer);
bool is_lora(std::string_view parameter);

// For linear(): y, with what the layer's adapter makes of x where the scope gives it one. `p` is the layer's folder.
Tensor with_adapter(const Params& p, const LinearLayer& layer, const Tensor& x, const Tensor& y);

}  // namespace mstrain
