#include "suites/reinforcement/train/off_policy_learner.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "core/transform/grad.h"
#include "suites/reinforcement/algorithms/sizes.h"
#include "suites/reinforcement/train/clipped_update.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint64_t kNoiseStream = 0x6e6f697365;  // apart from other draws of the run

// Of the actor, `next` where `learns` [] is 1, else `before`; of everything else `next`.
void keep_actor(const Params& before, const Tensor& learns, Params& next) {
  for (size_t i = 0; i < before.size(); ++i) {
    const std::string& name = before.name(i);
    if (name.starts_with("actor.")) {
      next.set(name, where(learns > 0.5, *next.find(name), before.tensor(i)));
    }
  }
}

}  // namespace

OffPolicyLearner::OffPolicyLearner(const Config& config, const OffPolicy& algorithm,
                                   const OffPolicyModel& model)
    : config_(config),
      algorithm_(algorithm),
      model_(model),
      optimizer_(config.optimizer, model.specs()),
      params_(init_params(model.specs(), static_cast<uint64_t>(config.run.seed))),
      target_(init_params(model.specs(), static_cast<uint64_t>(config.run.seed))),
      state_(optimizer_.init(params_)) {
  step_ = jit(
      [this](Params params, OptimizerState state, Params target, const OffPolicyBatch& batch,
             const Rates& rates) {
        return update(std::move(params), std::move(state), std::move(target), batch, rates);
      },
      {.donate = {0, 1, 2}, .name = "update"});
}

OffPolicyLearner::Updated OffPolicyLearner::update(Params params, OptimizerState state,
                                                   Params target, const OffPolicyBatch& batch,
                                                   const Rates& rates) const {
  const auto objective = [&](const Params& p) {
    OffPolicyLoss loss = model_.loss(p, target, batch);
    return std::pair(loss.loss.loss, loss);
  };
  auto [value, gradients] = value_and_grad(objective)(params);
  auto measures = std::move(value.second.loss.measures);
  measures.insert(measures.begin(), {"loss", value.first});
  const Params before = params;
  const OptimizerState state_before = state;
  auto [next, next_state] = clipped_update(optimizer_, std::move(params), std::move(gradients),
                                           std::move(state), rates.lr, measures);
  if (algorithm_.policy_delay() > 1) {
    keep_actor(before, rates.policy, next);
    for (size_t i = 0; i < next_state.slots.size(); ++i) {
      keep_actor(state_before.slots[i].second, rates.policy, next_state.slots[i].second);
    }
  }
  Params follows = followed(target, next, rates.target);
  return {std::move(next), std::move(follows), std::move(next_state), value.second.error_b,
          std::move(measures)};
}

OffPolicyBatch OffPolicyLearner::batch(ReplaySample& drawn) const {
  const Shape shape = drawn.action_bd.shape();
  Rng rng(static_cast<uint64_t>(config_.run.seed), kNoiseStream + static_cast<uint64_t>(updates_));
  const auto noise = [&] {
    HostWrite out({Dtype::kF32, shape});
    if (model_.noise_is_normal()) {
      for (float& each : out.values<float>()) {
        each = static_cast<float>(rng.normal());
      }
    } else {
      std::ranges::fill(out.values<float>(), 0.0F);  // asked for by no loss
    }
    return out.finish();
  };
  const Tensor first = noise();
  return {drawn.observation_bo,
          drawn.action_bd,
          drawn.reward_b,
          drawn.discount_b,
          drawn.next_observation_bo,
          drawn.weight_b,
          first,
          noise(),
          drawn.sequences};
}

Measures OffPolicyLearner::learn(Replay& replay, double progress) {
  const double lr = config_.schedule.lr_at(config_.optimizer.lr, progress);
  const double importance =
      algorithm_.importance + (1 - algorithm_.importance) * std::fmin(progress, 1);
  Measures sums;
  for (int64_t i = 0; i < algorithm_.updates; ++i) {
    ReplaySample drawn =
        replay.sample(algorithm_.batch_size, static_cast<uint64_t>(config_.run.seed),
                      static_cast<uint64_t>(updates_), importance);
    const OffPolicyBatch steps = batch(drawn);
    ++updates_;
    const bool follows = updates_ % algorithm_.target_interval == 0;
    const bool acts = updates_ % algorithm_.policy_delay() == 0;
    Updated next =
        step_(std::move(params_), std::move(state_), std::move(target_), steps,
              {scalar(lr), scalar(follows ? algorithm_.target_rate : 0), scalar(acts ? 1 : 0)});
    params_ = std::move(next.params);
    target_ = std::move(next.target);
    state_ = std::move(next.state);
    if (algorithm_.prioritised) {
      const HostRead errors(next.error_b);
      replay.set_errors(drawn.places, errors.values<float>());
    }
    sums.resize(next.measures.size());
    for (size_t m = 0; m < sums.size(); ++m) {
      sums[m].first = next.measures[m].first;
      sums[m].second += item(next.measures[m].second) / static_cast<double>(algorithm_.updates);
    }
    check(std::isfinite(sums[0].second),
          "{}: update {}: the loss is {}; the run diverged (a lower optimizer.lr may help)",
          algorithm_.type, updates_, sums[0].second);
  }
  sums.emplace_back("lr", lr);
  return sums;
}

}  // namespace mstrain::reinforcement
