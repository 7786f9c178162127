// An algorithm at work: what a run (session.h) asks of it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/files.h"
#include "core/comm/communicator.h"
#include "core/optim/optimizer.h"
#include "core/train/stored_tensor.h"
#include "suites/reinforcement/train/config.h"
#include "suites/reinforcement/train/env_group.h"

namespace mstrain::reinforcement {

// "loss" first; then what else an algorithm tells.
using Measures = std::vector<std::pair<std::string, double>>;

struct Iteration {
  int64_t env_steps = 0;
  Measures measures;  // empty: nothing was learned yet
  std::vector<Episode> finished;
};

// What chooses actions in an evaluation, without noise.
class Player {
 public:
  virtual ~Player() = default;
  // Episodes of `rows` rows begin: what was seen before is forgotten.
  virtual void begin(int64_t /*rows*/) {}
  // [rows, O] -> [rows, d], and what it takes them to be worth [rows]: the discounted rewards from there on, as training has
  // them; of a team what the team is worth. legal: as Environments::legal().
  virtual void act(std::span<const float> observations, std::span<const uint8_t> legal,
                   std::span<float> actions, std::span<float> values) = 0;
  // Flags of environments: episodes end with the step that act() was asked for.
  virtual void end(std::span<const uint8_t> /*terminated*/,
                   std::span<const uint8_t> /*truncated*/) {}
};

class Agent : public Player {
 public:
  // Acts, and learns from it. `progress`: the share of the run that is over. Throws Error naming environment and step.
  virtual Iteration iterate(double progress) = 0;

  // What a checkpoint holds: tensors, which load_tensors() writes into where they are, and everything else as bytes.
  virtual std::vector<StoredTensor> model() const = 0;
  virtual std::vector<StoredTensor> optimizer() const = 0;
  virtual std::string save() const = 0;
  virtual void load(std::string_view bytes) = 0;
  // A checkpoint is complete; the oldest that there is was written after so many steps of environments. What an agent keeps outside of
  // checkpoints, and none of them needs, may go.
  virtual void release(int64_t /*oldest_env_steps*/) {}

  // Whether ranks iterate at their own pace. Then iterate() of the first one returns after each iteration, and of the others when
  // it calls them in, which it may do between two of its own, saying how many steps of environments its iterations have counted
  // since it last did.
  virtual bool runs_free() const { return false; }
  virtual void call_in(int64_t /*env_steps*/) {}

  // Running statistics that an evaluation takes over.
  virtual const VectorEnv& env() const = 0;
};

// What an agent will take, told before it exists.
struct AgentPlan {
  int64_t parameters = 0;
  int64_t model_bytes = 0, optimizer_bytes = 0, data_bytes = 0, program_bytes = 0;
  int64_t disk_bytes = 0;  // of files beside checkpoints, at least
  int64_t env_steps = 0;   // of an iteration
  int64_t updates = 0;     // of an iteration
  // Steps of environments before the first update, and those that are kept to learn from; 0: an algorithm without a memory of them.
  int64_t learning_starts = 0, kept_steps = 0;
  // What changes of a configuration make it take less.
  std::string advice =
      "fewer environment.num_envs, fewer algorithm.steps, a smaller algorithm.buffer_size or "
      "algorithm.buffer_on: disk take less";
  std::vector<std::string> who;  // a line each: what runs where, what its edges become
  int64_t total() const { return model_bytes + optimizer_bytes + data_bytes + program_bytes; }
};

// Parameters, and the bytes of them and of their optimizer's slots.
AgentPlan plan_parameters(std::span<const ParamSpec> specs, const OptimizerConfig& optimizer);

struct AgentEntry {
  std::string type;  // algorithm.type
  std::unique_ptr<AlgorithmConfig> (*config)();
  // Throws ConfigError, with the line in `tree`, where the algorithm and the rest do not fit.
  // `files`: for what an agent keeps in config.run.directory().
  std::unique_ptr<Agent> (*make)(const Config& config, const YamlNode& tree, Communicator* ranks,
                                 FileSystem& files);
  AgentPlan (*plan)(const Config& config, const YamlNode& tree, int64_t ranks);
  // The same agent's policy alone; `load` fills its tensors.
  std::unique_ptr<Player> (*player)(const Config& config,
                                    const std::function<void(std::vector<StoredTensor>)>& load);
};

// Once for each type, before any run; makes it a kind of run (suites/run/suite.h).
void add_agent(const AgentEntry& entry);
const std::vector<AgentEntry>& agents();
const AgentEntry& agent_of(const std::string& type);

// Tensors under their names, as a checkpoint stores them.
std::vector<StoredTensor> stored(const Params& params, const std::string& prefix = "");
std::vector<StoredTensor> stored(const OptimizerState& state, const std::string& prefix = "");

}  // namespace mstrain::reinforcement
