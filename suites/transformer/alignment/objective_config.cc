#include "suites/transformer/alignment/objective_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "suites/transformer/alignment/rewards.h"

namespace mstrain {
namespace {

// What is given for an objective of another type.
template <class Section>
void check_is_asked(const Section& section, const char* name, bool is_asked, const YamlNode& tree) {
  if (!is_asked && to_yaml(write_config(section)) != to_yaml(write_config(Section()))) {
    config_fail(tree, fmt::format("objective.{}", name),
                fmt::format("is for objective.type: {}", name));
  }
}

}  // namespace

bool ObjectiveConfig::reads_answers() const {
  const std::vector<RewardConfig> rewards = writing().rewards;
  return std::any_of(rewards.begin(), rewards.end(), [](const RewardConfig& reward) {
    return reward.type == RewardType::kExact || reward.type == RewardType::kNumber ||
           reward.type == RewardType::kPlaces;
  });
}

void check_objective(const ObjectiveConfig& config, const YamlNode& tree) {
  const ObjectiveConfig defaults;
  check_is_asked(config.grpo, "grpo", config.type == ObjectiveType::kGrpo, tree);
  check_is_asked(config.ppo, "ppo", config.type == ObjectiveType::kPpo, tree);
  if (config.is_rewarded()) {
    check_rewards(config.writing().rewards, config.section() + ".rewards", tree);
    const GenerationConfig generation = config.writing().generation;
    if ((generation.top_p || generation.min_p) && !generation.top_k) {
      config_fail(tree,
                  config.section() + (generation.top_p ? ".generation.top_p" : ".generation.min_p"),
                  "needs generation.top_k, which bounds what is kept with each token");
    }
  }
  if (config.type == ObjectiveType::kGrpo) {
    const GrpoConfig usual;
    const GrpoConfig& grpo = config.grpo;
    const auto needs_passes = [&](const char* key, bool is_usual) {
      if (grpo.passes == 1 && !is_usual) {
        config_fail(tree, key,
                    "is for objective.grpo.passes of more than 1: the policy that wrote the "
                    "answers has ratios of 1");
      }
    };
    needs_passes("objective.grpo.ratios", grpo.ratios == usual.ratios);
    needs_passes("objective.grpo.clip_low", grpo.clip_low == usual.clip_low);
    needs_passes("objective.grpo.clip_high", grpo.clip_high == usual.clip_high);
  }
  if ((!config.compares() || config.is_rewarded()) && config.beta != defaults.beta) {
    config_fail(tree, "objective.beta", "is for objective.type dpo, ipo and kto");
  }
  if (!config.judges() && config.wanted_weight != defaults.wanted_weight) {
    config_fail(tree, "objective.wanted_weight", "is for objective.type kto");
  }
  if (!config.judges() && config.unwanted_weight != defaults.unwanted_weight) {
    config_fail(tree, "objective.unwanted_weight", "is for objective.type kto");
  }
  if (config.judges() && config.wanted_weight == 0 && config.unwanted_weight == 0) {
    config_fail(tree, "objective.unwanted_weight",
                "0, as is objective.wanted_weight: nothing would be learnt");
  }
  if (!config.scores() && config.center != defaults.center) {
    config_fail(tree, "objective.center", "is for objective.type reward");
  }
  if (config.type != ObjectiveType::kDpo && config.label_smoothing != 0) {
    config_fail(tree, "objective.label_smoothing",
                "is for objective.type dpo; of next tokens see model.label_smoothing");
  }
}

}  // namespace mstrain
