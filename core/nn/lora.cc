#include "core/nn/lora.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/nn/layers.h"
#include "core/ops/elementwise.h"

namespace mstrain {
namespace {

thread_local const LoraConfig* lora_of_thread = nullptr;
thread_local std::vector<LinearLayer>* listed = nullptr;

constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";

}  // namespace

double LoraConfig::scale() const {
  const auto width = static_cast<double>(rank);
  return alpha / (use_rslora ? std::sqrt(width) : width);
}

bool ends_with_one_of(std::string_view name, std::span<const std::string> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return name == end || name.ends_with("." + end);
  });
}

bool LoraConfig::adapts(std::string_view layer) const {
  return (targets.is_word() || ends_with_one_of(layer, *targets.value)) &&
         !ends_with_one_of(layer, modules_to_save);
}

bool LoraConfig::trains(std::string_view parameter) const {
  return is_lora(parameter) ||
         ends_with_one_of(parameter.substr(0, parameter.rfind('.')), modules_to_save);
}

LoraScope::LoraScope(const LoraConfig* config) : previous_(std::exchange(lora_of_thread, config)) {}

LoraScope::~LoraScope() { lora_of_thread = previous_; }

std::vector<LinearLayer> linear_layers(const std::function<void()>& model) {
  std::vector<LinearLayer> out;
  struct Listing {
    std::vector<LinearLayer>* previous;
    ~Listing() { listed = previous; }
  } const until_the_end{std::exchange(listed, &out)};
  model();
  return out;
}

std::string lora_a_name(std::string_view layer) { return std::string(layer).append(kA); }
std::string lora_b_name(std::string_view layer) { return std::string(layer).append(kB); }
bool is_lora(std::string_view parameter) {
  return parameter.ends_with(kA) || parameter.ends_with(kB);
}

Tensor with_adapter(const Params& p, const LinearLayer& layer, const Tensor& x, const Tensor& y) {
  if (listed != nullptr) {
    listed->push_back(layer);
  }
  if (lora_of_thread == nullptr || !lora_of_thread->adapts(layer.path)) {
    return y;
  }
  const LoraConfig& config = *lora_of_thread;
  const LoraScope adapters_have_none(nullptr);
  const Tensor thin =
      linear(p / "lora_A", dropout(p / "lora_dropout", x, config.dropout), {config.rank},
             {.in_dims = layer.in.rank(),
              .bias = false,
              .out_first = true,
              .weight_init = fan_in_uniform(layer.in.elements())});
  return y + linear(p / "lora_B", thin * config.scale(), layer.out,
                    {.bias = false, .out_first = true, .weight_init = zeros_init()});
}

}  // namespace mstrain
