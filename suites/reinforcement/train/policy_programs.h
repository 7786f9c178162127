// An actor-critic's programs for acting, on rows by eights (eight_rows.h).
#pragma once

#include <functional>
#include <vector>

#include "suites/reinforcement/train/agent.h"
#include "suites/reinforcement/train/rollout.h"

namespace mstrain::reinforcement {

class PolicyPrograms final : public Policy, public Player {
 public:
  // `params` are looked at whenever it acts; both must outlive it.
  PolicyPrograms(const ActorCritic& network, const Params& params);

  void decide(std::span<const float> observations, std::span<const float> noise,
              std::span<float> memory, std::span<float> actions, std::span<float> log_probs,
              std::span<float> values) override;
  void value(std::span<const float> observations, std::span<const float> memory,
             std::span<float> values) override;
  void begin(int64_t rows) override;
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override;
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override;

 private:
  const ActorCritic& network_;
  const Params& params_;
  using Memory = ActorCritic::Memory;
  Memory eight_memories(std::span<const float> memory, int64_t row) const;

  std::vector<float> memory_;  // of act()
  std::function<Decision(const Params&, const Tensor&, const Tensor&, const Memory&)> decide_;
  std::function<Tensor(const Params&, const Tensor&, const Memory&)> value_;
  std::function<Choice(const Params&, const Tensor&, const Memory&)> best_action_;
};

}  // namespace mstrain::reinforcement
