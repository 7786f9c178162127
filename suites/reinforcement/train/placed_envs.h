// The environments of a rank, and those that it acts on, as distribution.policy has them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "suites/reinforcement/train/joint_envs.h"
#include "suites/reinforcement/train/roles.h"

namespace mstrain::reinforcement {

class PlacedEnvs {
 public:
  // `ranks`: null where there is one. All must outlive it.
  PlacedEnvs(const Config& config, const Roles& roles, Communicator* ranks);

  const EnvSpec& spec() const { return plain_->spec(); }
  bool is_first() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  // Whether this rank chooses actions: of its own environments, or of all.
  bool acts() const { return joint_.has_value() || (own_ && (is_first() || !roles_.serves())); }
  // Where it does.
  Environments& acted_on() { return joint_ ? static_cast<Environments&>(*joint_) : *own_; }
  const Environments& acted_on() const {
    return joint_ ? static_cast<const Environments&>(*joint_) : *own_;
  }
  // The first row of acted_on() among all of the run's.
  int64_t first_row() const { return joint_ || !own_ ? 0 : own_->first() * spec().agents; }

  // At the begin of an iteration of `steps` steps. Where others act, the whole of it.
  void begin(int64_t steps);

  std::string save() const { return own_ ? own_->save() : ""; }
  void load(std::string_view bytes);
  // Running statistics that an evaluation takes over.
  const VectorEnv& env() const { return own_ ? own_->env() : *plain_; }

 private:
  Roles roles_;
  Communicator* ranks_;
  std::unique_ptr<VectorEnv> plain_;  // says what environments are like
  std::optional<EnvGroup> own_;
  std::optional<JointEnvs> joint_;
};

// Throws ConfigError, with the line in `tree`, where not one rank alone chooses all actions; `keeps`: what for, as "dqn keeps its steps".
// And as check_hosts().
void check_one_holder(const Config& config, const YamlNode& tree, int64_t ranks,
                      const std::string& keeps);

// For people: who steps environments, and what goes over the edges to rank 0.
std::string served_hosts(const Roles& roles);
std::string served_edges(const EnvSpec& spec, const Roles& roles);

}  // namespace mstrain::reinforcement
