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
#include "suites/reinforcement/train/part_means.h"

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
                                   const OffPolicyModel& model, Communicator* ranks)
    : config_(config),
      algorithm_(algorithm),
      model_(model),
      ranks_(ranks),
      parts_{.items = algorithm.batch_size,
             .parts = algorithm.parts.value_or(ranks == nullptr ? 1 : ranks->size()),
             .learners = ranks == nullptr ? 1 : ranks->size(),
             .learner = ranks == nullptr ? 0 : ranks->rank()},
      optimizer_(config.optimizer, model.specs()),
      params_(init_params(model.specs(), static_cast<uint64_t>(config.run.seed))),
      target_(init_params(model.specs(), static_cast<uint64_t>(config.run.seed))),
      state_(optimizer_.init(params_)) {
  step_ = jit(
      [this](Params params, OptimizerState state, Params target, const Turns& turns,
             const Rates& rates) {
        return update(std::move(params), std::move(state), std::move(target), turns, rates);
      },
      {.donate = {0, 1, 2}, .name = "update"});
}

OffPolicyLearner::Updated OffPolicyLearner::update(Params params, OptimizerState state,
                                                   Params target, const Turns& turns,
                                                   const Rates& rates) const {
  PartMeans means(parts_.learners);
  Params gradients;
  NamedNumbers measures;
  Tensors errors;
  for (const OffPolicyBatch& batch : turns) {
    const auto objective = [&](const Params& p) {
      OffPolicyLoss loss = model_.loss(p, target, batch);
      return std::pair(loss.loss.loss, loss);
    };
    auto [value, of_turn] = value_and_grad(objective)(params);
    gradients = std::move(of_turn);
    measures = std::move(value.second.loss.measures);
    measures.insert(measures.begin(), {"loss", value.first});
    errors.push_back(value.second.error_b);
    if (parts_.parts > 1) {
      means.add(gradients, measures);
    }
  }
  if (parts_.parts > 1) {
    means.finish(gradients, measures);
  }
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
  return {std::move(next), std::move(follows), std::move(next_state),
          of_all_parts(parts_.learners, errors), std::move(measures)};
}

OffPolicyLearner::Turns OffPolicyLearner::turns(const Replay& replay, const Drawn& drawn) const {
  const auto items = shared_items(replay, drawn.places, parts_, ranks_);
  Turns out;
  for (int64_t turn = 0; turn < parts_.turns(); ++turn) {
    const auto weights =
        std::span(drawn.weights)
            .subspan(count(parts_.first(turn, parts_.learner)), count(parts_.size()));
    out.push_back(batch_of(replay.shape(), items[count(turn)], weights));
  }
  // Of all steps of the batch, one part's after another's, of which every learner takes its own.
  const Shape shape = out.front().action_bd.shape();
  const int64_t each = out.front().action_bd.elements();
  Rng rng(static_cast<uint64_t>(config_.run.seed), kNoiseStream + static_cast<uint64_t>(updates_));
  const auto noise = [&](Tensor OffPolicyBatch::*member) {
    std::vector<float> all(count(each * parts_.parts));
    if (model_.noise_is_normal()) {  // else asked for by no loss
      for (float& number : all) {
        number = static_cast<float>(rng.normal());
      }
    }
    for (int64_t turn = 0; turn < parts_.turns(); ++turn) {
      const int64_t part = turn * parts_.learners + parts_.learner;
      out[count(turn)].*member =
          tensor<float>(std::span(all).subspan(count(part * each), count(each)), shape);
    }
  };
  noise(&OffPolicyBatch::noise_bd);
  noise(&OffPolicyBatch::next_noise_bd);
  return out;
}

Measures OffPolicyLearner::learn(Replay& replay, double progress) {
  const double lr = config_.schedule.lr_at(config_.optimizer.lr, progress);
  const double importance =
      algorithm_.importance + (1 - algorithm_.importance) * std::fmin(progress, 1);
  Measures sums;
  for (int64_t i = 0; i < algorithm_.updates; ++i) {
    const Drawn drawn = replay.draw(algorithm_.batch_size, static_cast<uint64_t>(config_.run.seed),
                                    static_cast<uint64_t>(updates_), importance);
    const Turns steps = turns(replay, drawn);
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
