#include "suites/transformer/alignment/objective_config.h"

#include "suites/transformer/alignment/rewards.h"

namespace mstrain {

void check_objective(const ObjectiveConfig& config, const YamlNode& tree) {
  const ObjectiveConfig defaults;
  if (config.is_rewarded()) {
    check_rewards(config.grpo, tree);
  }
  if (!config.prefers() && config.beta != defaults.beta) {
    config_fail(tree, "objective.beta", "is for objective.type dpo and ipo");
  }
  if (config.type != ObjectiveType::kDpo && config.label_smoothing != 0) {
    config_fail(tree, "objective.label_smoothing",
                "is for objective.type dpo; of next tokens see model.label_smoothing");
  }
}

}  // namespace mstrain
