#include "suites/reinforcement/train/agent.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ir/tensor.h"

namespace mstrain::reinforcement {
namespace {

std::vector<AgentEntry>& entries() {
  static std::vector<AgentEntry> all;
  return all;
}

}  // namespace

void add_agent(const AgentEntry& entry) {
  check(std::none_of(entries().begin(), entries().end(),
                     [&](const AgentEntry& known) { return known.type == entry.type; }),
        "add_agent: {} is there already", entry.type);
  entries().push_back(entry);
}

const std::vector<AgentEntry>& agents() { return entries(); }

const AgentEntry& agent_of(const std::string& type) {
  for (const AgentEntry& entry : entries()) {
    if (entry.type == type) {
      return entry;
    }
  }
  std::vector<std::string> known;
  for (const AgentEntry& entry : entries()) {
    known.push_back(entry.type);
  }
  throw ConfigError(
      fmt::format("algorithm.type: no algorithm is called {}{}", type, did_you_mean(type, known)));
}

AgentPlan plan_parameters(std::span<const ParamSpec> specs, const OptimizerConfig& optimizer) {
  AgentPlan plan;
  for (const ParamSpec& spec : specs) {
    plan.parameters += spec.type.elements();
    plan.model_bytes += spec.type.bytes();
  }
  const Trace trace(Trace::Mode::kAbstract);
  const OptimizerState state = Optimizer(optimizer, specs).init(abstract_params(specs));
  for (const auto& [slot, values] : state.slots) {
    for (size_t i = 0; i < values.size(); ++i) {
      plan.optimizer_bytes += values.tensor(i).type().bytes();
    }
  }
  return plan;
}

std::vector<StoredTensor> stored(const Params& params, const std::string& prefix) {
  std::vector<StoredTensor> out;
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& value = params.tensor(i);
    out.push_back({.name = prefix + params.name(i), .shape = value.shape(), .value = value});
  }
  return out;
}

std::vector<StoredTensor> stored(const OptimizerState& state, const std::string& prefix) {
  std::vector<StoredTensor> out{
      {.name = prefix + "step", .shape = state.step.shape(), .value = state.step}};
  for (const auto& [slot, values] : state.slots) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor& value = values.tensor(i);
      out.push_back(
          {.name = prefix + values.name(i) + "." + slot, .shape = value.shape(), .value = value});
    }
  }
  return out;
}

}  // namespace mstrain::reinforcement
