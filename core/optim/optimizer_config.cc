#include "core/optim/optimizer_config.h"

#include "core/optim/update_rules.h"

namespace mstrain {

std::string_view name_of(OptimizerType type) { return update_rule(type).name; }

void check_optimizer_config(const OptimizerConfig& config, const YamlNode& tree) {
  const OptimizerConfig defaults;
  const UpdateRule& rule = update_rule(config.type);
  const auto unused = [&](std::string_view key, bool is_default) {
    const bool used = std::find(rule.keys.begin(), rule.keys.end(), key) != rule.keys.end();
    if (!used && !is_default) {
      config_fail(tree, fmt::format("optimizer.{}", key),
                  fmt::format("{} does not use it; remove the key", rule.name));
    }
  };
  unused("betas", config.betas == defaults.betas);
  unused("eps", config.eps == defaults.eps);
  unused("momentum", config.momentum == defaults.momentum);
  unused("nesterov", config.nesterov == defaults.nesterov);
  unused("alpha", config.alpha == defaults.alpha);
  if (config.type == OptimizerType::kMuon && config.momentum == 0) {
    config_fail(tree, "optimizer.momentum", "muon needs some; say 0.95");
  }
  if (config.nesterov && config.momentum == 0) {
    config_fail(tree, "optimizer.nesterov", "needs optimizer.momentum above 0");
  }
}

}  // namespace mstrain
