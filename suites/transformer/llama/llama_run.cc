#include "suites/transformer/llama/llama_run.h"

#include "suites/transformer/llama/hf_names.h"
#include "suites/transformer/llama/model.h"
#include "suites/transformer/llama/network.h"

namespace mstrain::llama {

std::shared_ptr<const Network> LlamaRun::network() const {
  return std::make_shared<LlamaNetwork>(model);
}

void LlamaRun::take_network(const Network& network) {
  model = dynamic_cast<const LlamaNetwork&>(network).config();
}

std::shared_ptr<const CausalModel> LlamaRun::causal_model() const {
  return std::make_shared<Llama>(model, train.memory.recompute);
}

// Nearly: biases and norms are left out. In numbers that hold whatever the configuration says.
LeastSize LlamaRun::least_size() const {
  const auto number = [](int64_t x) { return static_cast<double>(x); };
  const double hidden = number(model.hidden_size);
  const double heads = number(model.num_attention_heads) + number(model.key_value_heads());
  const double width =
      model.head_dim ? number(*model.head_dim) : hidden / number(model.num_attention_heads);
  const double inner = model.ffn_hidden_size ? number(*model.ffn_hidden_size) : 8 * hidden / 3;
  const double rows = number(model.vocab_size.value_or(1)) * (model.tie_embeddings ? 1 : 2);
  const double layer = 2 * hidden * heads * width + 3 * hidden * inner;
  return least_size_with(rows * hidden + number(model.num_layers) * layer, 2);
}

void LlamaRun::check(const YamlNode& tree) const {
  CausalRun::check(tree);
  check_llama_config(model, tree);
}

ModelEntry entry() {
  return {"llama",
          {"llama", "mistral", "qwen2"},
          [] { return std::unique_ptr<ModelRun>(std::make_unique<LlamaRun>()); },
          [](const Json& config_json, const std::string& source, const Holds&) {
            return std::shared_ptr<const Network>(
                std::make_shared<LlamaNetwork>(config_from_hf(config_json, source)));
          }};
}

}  // namespace mstrain::llama
