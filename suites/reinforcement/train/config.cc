#include "suites/reinforcement/train/config.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

double EnvSchedule::lr_at(double peak, double progress) const {
  const double lowest = peak * min_lr_ratio;
  const double done = std::fmin(progress, 1);
  switch (type) {
    case RateShape::kConstant: return peak;
    case RateShape::kLinear: return lowest + (peak - lowest) * (1 - done);
    case RateShape::kCosine:
      return lowest + (peak - lowest) * (1 + std::cos(std::numbers::pi * done)) / 2;
  }
  return peak;
}

Config usual_config(const YamlNode& tree) {
  const YamlNode* type = find_config(tree, "algorithm.type");
  if (type == nullptr) {
    config_fail(tree, "algorithm.type", "is missing");
  }
  Config config;
  config.algorithm = agent_of(type->text).config();
  config.algorithm->type = type->text;
  config.optimizer.type = OptimizerType::kAdam;
  config.optimizer.clip_grad = std::nullopt;
  return config;
}

Config read_reinforcement(const YamlNode& tree) {
  Config config = usual_config(tree);
  read_config(tree, config);
  check_optimizer_config(config.optimizer, tree);
  if (config.memory.offload.any()) {
    config_fail(tree, "memory.offload",
                "agents are small, and keep everything on the device; say none");
  }
  if (config.run.device != "auto" && config.run.device != "cpu") {
    config_fail(tree, "run.device",
                fmt::format("{}, but agents act and learn on processors; say cpu or auto",
                            config.run.device));
  }
  if (config.run.device_description) {
    config_fail(tree, "run.device_description",
                "agents act and learn on processors, of this machine; leave it out");
  }
  if (config.run.mode != RunMode::kTrain) {
    config_fail(tree, "run.mode", "expected train: mstrain play shows what a checkpoint does");
  }
  if (config.environment.env.reset != ResetMode::kSameStep) {
    config_fail(tree, "environment.reset",
                "training takes same_step, in which every step is one to learn from");
  }
  if (!config.environment.env.name && !config.environment.env.library) {
    config_fail(tree, "environment.name", "is missing; `mstrain envs` lists them");
  }
  const EnvConfig& env = config.environment.env;
  if (!env.library) {
    try {
      find_environment(*env.name);
    } catch (const ConfigError& error) {
      config_fail(tree, "environment.name", error.what());
    }
  } else if (!real_files().exists(*env.library)) {
    config_fail(tree, "environment.library", fmt::format("there is no {}", *env.library));
  }
  if (!env.library && !env.time_limit && !config.eval.interval.is_word()) {
    const EnvSpec& spec = find_environment(*env.name).spec;
    if (spec.endless) {
      config_fail(tree, "environment.time_limit",
                  fmt::format("null, and nothing else ends an episode of {}, so that no evaluation "
                              "would end; expected a number, auto ({}), or eval.interval: none",
                              *env.name, spec.time_limit));
    }
  }
  if (config.distribution.policy == Placement::kDeviceOnly) {
    config_fail(tree, "distribution.policy",
                "device_only keeps environments and learner on one accelerator, and this build's "
                "environments run on the host; expected single");
  }
  if (const std::string why = models_unread(env); !why.empty()) {
    config_fail(tree, "environment.models", why);
  }
  return config;
}

void check_env_schedule(const EnvSchedule& schedule, const YamlNode& tree) {
  if (schedule.type == RateShape::kConstant && schedule.min_lr_ratio != 0) {
    config_fail(tree, "schedule.min_lr_ratio", "constant does not use it; remove the key");
  }
}

}  // namespace mstrain::reinforcement
