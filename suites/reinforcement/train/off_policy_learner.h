// The learner of off-policy algorithms: from drawn steps to the next parameters.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/tensor/jit.h"
#include "suites/reinforcement/algorithms/off_policy.h"
#include "suites/reinforcement/train/agent.h"
#include "suites/reinforcement/train/replay.h"
#include "suites/reinforcement/train/shared_batch.h"

namespace mstrain::reinforcement {

class OffPolicyLearner {
 public:
  // All arguments must outlive it. `ranks`: those that learn, null where there is one; each learns from its parts of every batch, along
  // the axis `data` of the context's ranks.
  OffPolicyLearner(const Config& config, const OffPolicy& algorithm, const OffPolicyModel& model,
                   Communicator* ranks);

  const Params& params() const { return params_; }
  const Params& target() const { return target_; }
  const OptimizerState& state() const { return state_; }

  // OffPolicy::updates of them; means over them, and "lr". Throws Error where a loss is not finite.
  Measures learn(Replay& replay, double progress);

  void save(ByteWriter& to) const { to.put(updates_); }
  void load(ByteReader& from) { updates_ = from.get<int64_t>(); }

 private:
  // Numbers [] that change from update to update.
  struct Rates {
    Tensor lr, target, policy;  // policy: 1 where it learns, else 0

    template <class V>
    void fields(V& v) {
      v("lr", lr);
      v("target", target);
      v("policy", policy);
    }
  };
  struct Updated {
    Params params, target;
    OptimizerState state;
    Tensor error_b;
    std::vector<std::pair<std::string, Tensor>> measures;

    template <class V>
    void fields(V& v) {
      v("params", params);
      v("target", target);
      v("state", state);
      v("error", error_b);
      for (auto& [name, value] : measures) {
        v(name, value);
      }
    }
  };
  // `turns`: this learner's parts of a batch.
  using Turns = std::vector<OffPolicyBatch>;
  Updated update(Params params, OptimizerState state, Params target, const Turns& turns,
                 const Rates& rates) const;
  Turns turns(const Replay& replay, const Drawn& drawn) const;

  const Config& config_;
  const OffPolicy& algorithm_;
  const OffPolicyModel& model_;
  Communicator* ranks_;
  BatchParts parts_;
  Optimizer optimizer_;
  Params params_, target_;
  OptimizerState state_;
  int64_t updates_ = 0;  // ever: what draws are made by
  std::function<Updated(Params, OptimizerState, Params, const Turns&, const Rates&)> step_;
};

}  // namespace mstrain::reinforcement
