// The rules behind Optimizer: one row of a table for each.
#pragma once

#include <string_view>
#include <vector>

#include "core/ops/adamw.h"
#include "core/optim/optimizer_config.h"
#include "core/optim/shard.h"
#include "core/tensor/params.h"

namespace mstrain {

// One parameter, its gradient and what the rule keeps for it.
struct ParameterStep {
  Tensor parameter;
  Tensor gradient;
  Tensors slots;
  bool decay = false;            // weight decay applies to it
  const Shard* shard = nullptr;  // where these are one rank's part
  // Of a rule that takes matrices apart: how products read this one.
  std::optional<MatrixForm> matrix = {};
};
// Rounded to the dtype of the parameter, after all arithmetic.
ParameterStep rounded(const ParameterStep& step, const Tensor& parameter, const Tensors& slots);

struct UpdateRule {
  OptimizerType type;
  std::string_view name;
  std::vector<std::string_view> keys;  // of the section: those that only some rules use
  std::vector<std::string_view> slots;
  // The new parameter and slots. Scalars are in the accumulation type of the parameter.
  ParameterStep (*apply)(const OptimizerConfig& config, const AdamwScalars& scalars,
                         const ParameterStep& step);
  // Of matrices of hidden layers, where the rule is another one for them.
  std::vector<std::string_view> matrix_slots = {};
  ParameterStep (*apply_to_matrix)(const OptimizerConfig& config, const AdamwScalars& scalars,
                                   const ParameterStep& step) = nullptr;
};

const UpdateRule& update_rule(OptimizerType type);

// The step as its kind of parameter takes it.
ParameterStep apply_rule(const OptimizerConfig& config, const AdamwScalars& scalars,
                         const ParameterStep& step);
// Whether it is AdamW's, which has kernels of its own.
bool steps_as_adamw(const OptimizerConfig& config, bool is_matrix);

// Names of what the rule keeps of such a parameter under this configuration: a velocity only where there is momentum.
std::vector<std::string_view> slots_of(const OptimizerConfig& config, bool is_matrix);

}  // namespace mstrain
