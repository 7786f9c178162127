// An off-policy model's programs for acting, on rows by eights (eight_rows.h).
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "suites/reinforcement/algorithms/off_policy.h"
#include "suites/reinforcement/train/agent.h"

namespace mstrain::reinforcement {

class OffPolicyPrograms final : public Player {
 public:
  // `params` are looked at whenever it acts; all must outlive it.
  OffPolicyPrograms(const OffPolicyModel& model, const EnvSpec& env, const Params& params);

  // Actions as algorithms have them. memory[r, m] becomes what is remembered afterwards.
  void explore(std::span<const float> observations, std::span<const float> noise, double explore,
               std::span<float> memory, std::span<float> actions);

  void begin(int64_t rows) override;
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override;
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override;

 private:
  // Actions, and what is remembered, where something is.
  using Acted = std::pair<Tensor, std::optional<Tensor>>;
  std::optional<Tensor> eight_memories(std::span<const float> memory, int64_t row) const;
  // program(eight observations, what is remembered of them, the first one's number) for all rows.
  void by_rows(std::span<const float> observations, std::span<float> memory,
               std::span<float> actions,
               const std::function<Acted(const Tensor&, const std::optional<Tensor>&, int64_t)>&
                   program) const;

  struct Best {
    Tensor action;
    std::optional<Tensor> worth;  // of a row; teams are asked as a whole
    std::optional<Tensor> remembered;

    template <class V>
    void fields(V& v) {
      v("action", action);
      v("worth", worth);
      v("remembered", remembered);
    }
  };

  EnvSpec env_;
  int64_t noise_size_, memory_size_;
  const Params& params_;
  std::vector<float> memory_;  // of act()
  std::function<Acted(const Params&, const Tensor&, const std::optional<Tensor>&, const Tensor&,
                      const Tensor&)>
      act_;
  std::function<Best(const Params&, const Tensor&, const std::optional<Tensor>&)> best_;
  std::function<Tensor(const Params&, const Tensor&)> team_worth_;  // null: there are no teams
};

// Actions as algorithms have them, in place as environments do: [-1, 1] becomes a box's bounds.
void to_bounds(const Space& space, std::span<float> actions);

}  // namespace mstrain::reinforcement
