// The rules behind Optimizer: one row of a table for each.
#pragma once

#include <string_view>
#include <vector>

#include "core/ops/adamw.h"
#include "core/optim/optimizer_config.h"
#include "core/optim/shard.h"

namespace mstrain {

// One parameter, its gradient and what the rule keeps for it.
struct ParameterStep {
  Tensor parameter;
  Tensor gradient;
  Tensors slots;
  bool decay = false;            // weight decay applies to it
  const Shard* shard = nullptr;  // where these are one rank's part
};

struct UpdateRule {
  OptimizerType type;
  std::string_view name;
  std::vector<std::string_view> keys;  // of the section: those that only some rules use
  std::vector<std::string_view> slots;
  // The new parameter and slots. Scalars are in the accumulation type of the parameter.
  ParameterStep (*apply)(const OptimizerConfig& config, const AdamwScalars& scalars,
                         const ParameterStep& step);
};

const UpdateRule& update_rule(OptimizerType type);

// Names of what the rule keeps under this configuration: a velocity only where there is momentum.
std::vector<std::string_view> slots_of(const OptimizerConfig& config);

}  // namespace mstrain
