#include "suites/transformer/gpt/gpt_run.h"

#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/gpt/network.h"

namespace mstrain::gpt {

std::shared_ptr<const Network> GptRun::network() const {
  return std::make_shared<GptNetwork>(model);
}

void GptRun::take_network(const Network& network) {
  model = dynamic_cast<const GptNetwork&>(network).config();
}

std::shared_ptr<const CausalModel> GptRun::causal_model() const {
  return std::make_shared<Gpt>(model, train.memory.recompute);
}

// Nearly: biases and norms are left out.
LeastSize GptRun::least_size() const {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto inner = model.ffn_hidden_size ? static_cast<double>(*model.ffn_hidden_size)
                                           : 4 * hidden;  // what may be no int64_t
  const auto rows =
      static_cast<double>(model.vocab_size.value_or(1)) * (model.tie_embeddings ? 1 : 2) +
      static_cast<double>(model.max_position_embeddings);
  const double parameters = rows * hidden + static_cast<double>(model.num_layers) *
                                                (4 * hidden * hidden + 2 * hidden * inner);
  return least_size_with(parameters, 2);
}

void GptRun::check(const YamlNode& tree) const {
  CausalRun::check(tree);
  check_gpt_config(model, tree);
}

ModelEntry entry() {
  return {"gpt",
          {"gpt2"},
          [] { return std::unique_ptr<ModelRun>(std::make_unique<GptRun>()); },
          [](const Json& config_json, const std::string& source, const Holds&) {
            return std::shared_ptr<const Network>(
                std::make_shared<GptNetwork>(config_from_hf(config_json, source)));
          }};
}

}  // namespace mstrain::gpt
