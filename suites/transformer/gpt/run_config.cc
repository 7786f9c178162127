#include "suites/transformer/gpt/run_config.h"

#include "core/base/error.h"

namespace mstrain::gpt {

GptRunConfig read_run_config(const YamlNode& tree) {
  GptRunConfig config;
  read_config(tree, config);
  check_train_config(config.train, tree);
  check_gpt_config(config.model, tree);
  check_data_config(config.data, tree);
  if (config.data.seq_length > config.model.max_position_embeddings) {
    config_fail(tree, "data.seq_length",
                fmt::format("{} is more than model.max_position_embeddings {}",
                            config.data.seq_length, config.model.max_position_embeddings));
  }
  return config;
}

}  // namespace mstrain::gpt
