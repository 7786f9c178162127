// The learner of on-policy algorithms: from a rollout to the next parameters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/tensor/jit.h"
#include "suites/reinforcement/algorithms/on_policy.h"
#include "suites/reinforcement/train/agent.h"
#include "suites/reinforcement/train/central.h"
#include "suites/reinforcement/train/part_means.h"
#include "suites/reinforcement/train/rollout.h"

namespace mstrain::reinforcement {

class OnPolicyLearner {
 public:
  // All arguments must outlive it. `learners`: of how many this is one, each with equally many of the environments, whose
  // gradients are averaged along the axis `data` of the context's ranks.
  OnPolicyLearner(const Config& config, const OnPolicy& algorithm, const ActorCritic& network,
                  int64_t learners, Communicator* ranks);

  const Params& params() const { return params_; }
  const OptimizerState& state() const { return state_; }

  // Means over the iteration's updates, and "lr".
  // `first_row`: of the rollout's rows among all of the run's.
  // `central`: where gradients go, in place of updates of its own; null: nowhere.
  Measures learn(Rollout& rollout, int64_t first_row, double progress,
                 CentralLearner* central = nullptr);
  // A rank that learns by what others push: one round of theirs. The gradient's norm.
  double serve(CentralServer& others, double progress);
  // Of central learners, whose parameters are not those of a checkpoint.
  Params& served_params() { return params_; }

  // The first rank's parameters to all: one message.
  void broadcast(Communicator& ranks);

  void save(ByteWriter& to) const;
  void load(ByteReader& from);

 private:
  struct Updated {
    Params params;
    OptimizerState state;
    std::vector<std::pair<std::string, Tensor>> measures;

    template <class V>
    void fields(V& v) {
      v("params", params);
      v("state", state);
      for (auto& [name, value] : measures) {
        v(name, value);
      }
    }
  };
  // The gradient of the objective, and its value with its parts as measures.
  std::pair<Params, NamedNumbers> gradients(const Params& params, const OnPolicyBatch& batch,
                                            const Knobs& knobs) const;
  Updated update(Params params, OptimizerState state, const OnPolicyBatch& batch,
                 const Knobs& knobs) const;
  // An update, here or elsewhere.
  NamedNumbers step(const OnPolicyBatch& batch, const Knobs& knobs, CentralLearner* central);
  std::vector<float> ratios(Rollout& rollout) const;
  // Steps [T, r] in the order in which a pass takes them: equally many of every row in each minibatch, or, of a network that
  // remembers, all steps of equally many rows, by time.
  std::vector<int32_t> order(const Rollout& rollout, int64_t first_row) const;
  std::vector<int32_t> order_of_rows(const Rollout& rollout, int64_t first_row) const;
  // Of the steps `at`, which are all of some rows; nothing where the network does not remember.
  std::optional<Past> past(const Rollout& rollout, std::span<const int32_t> at) const;
  std::vector<float> normalised(std::span<const float> advantages,
                                std::span<const int32_t> order) const;
  OnPolicyBatch batch(const Rollout& rollout, std::span<const float> advantages,
                      std::span<const float> targets, std::span<const int32_t> at) const;

  const Config& config_;
  const OnPolicy& algorithm_;
  const ActorCritic& network_;
  int64_t learners_;
  Communicator* ranks_;
  Optimizer optimizer_;
  Params params_;
  OptimizerState state_;
  int64_t passes_ = 0;  // epochs so far: what their orders are drawn by
  double kl_weight_ = 1;

  std::function<Updated(Params, OptimizerState, const OnPolicyBatch&, const Knobs&)> step_;
  std::function<std::pair<Params, NamedNumbers>(const Params&, const OnPolicyBatch&, const Knobs&)>
      gradients_;
  std::function<Updated(Params, OptimizerState, const Params&, const Tensor&)> apply_;
  std::function<Judgement(const Params&, const Tensor&, const Tensor&, const std::optional<Past>&)>
      judge_;
};

}  // namespace mstrain::reinforcement
