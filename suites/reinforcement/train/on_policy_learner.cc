#include "suites/reinforcement/train/on_policy_learner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/base/rng.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "core/tensor/host.h"
#include "core/transform/grad.h"
#include "suites/reinforcement/train/clipped_update.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint64_t kOrderStream = 0x6f72646572;  // apart from other draws of the run
constexpr double kSmallDeviation = 1e-8;
constexpr double kLeastKlWeight = 1e-6, kMostKlWeight = 1e6;  // from where it soon finds back

// Rows `at` of [N, width].
Tensor rows_of(std::span<const float> all, std::span<const int32_t> at, const Shape& shape) {
  const auto n = static_cast<int64_t>(at.size());
  HostWrite out({Dtype::kF32, shape});
  const auto width = count(out.values<float>().size()) / count(n);
  float* to = out.values<float>().data();
  if (width == 1) {
    std::ranges::transform(at, to, [&](int32_t row) { return all[count(row)]; });
    return out.finish();
  }
  for (const int32_t row : at) {
    std::memcpy(to, all.data() + count(row) * width, width * sizeof(float));
    to += width;
  }
  return out.finish();
}

}  // namespace

OnPolicyLearner::OnPolicyLearner(const Config& config, const OnPolicy& algorithm,
                                 const ActorCritic& network, int64_t learners, Communicator* ranks)
    : config_(config),
      algorithm_(algorithm),
      network_(network),
      learners_(learners),
      ranks_(ranks),
      optimizer_(config.optimizer, network.specs()),
      params_(init_params(network.specs(), static_cast<uint64_t>(config.run.seed))),
      state_(optimizer_.init(params_)) {
  step_ = jit(
      [this](Params params, OptimizerState state, const OnPolicyBatch& batch, const Knobs& knobs) {
        return update(std::move(params), std::move(state), batch, knobs);
      },
      {.donate = {0, 1}, .name = "update"});
  gradients_ = jit([this](const Params& params, const OnPolicyBatch& batch,
                          const Knobs& knobs) { return gradients(params, batch, knobs); },
                   {.name = "gradients"});
  apply_ = jit(
      [this](Params params, OptimizerState state, const Params& found, const Tensor& lr) {
        NamedNumbers measures;
        auto [next, next_state] =
            clipped_update(optimizer_, std::move(params), found, std::move(state), lr, measures);
        return Updated{std::move(next), std::move(next_state), std::move(measures)};
      },
      {.donate = {0, 1}, .name = "apply"});
  judge_ = jit(
      [this](const Params& params, const Tensor& observation, const Tensor& action,
             const std::optional<Past>& past) {
        return network_.judge(params, observation, action, past);
      },
      {.name = "judge"});
}

std::pair<Params, NamedNumbers> OnPolicyLearner::gradients(const Params& params,
                                                           const OnPolicyBatch& batch,
                                                           const Knobs& knobs) const {
  const auto objective = [&](const Params& p) {
    Loss loss = algorithm_.loss(
        network_.judge(p, batch.observation_bo, batch.action_bd, batch.past), batch, knobs);
    return std::pair(loss.loss, loss);
  };
  auto [value, gradients] = value_and_grad(objective)(params);
  auto measures = std::move(value.second.measures);
  measures.insert(measures.begin(), {"loss", value.first});
  return {std::move(gradients), std::move(measures)};
}

OnPolicyLearner::Updated OnPolicyLearner::update(Params params, OptimizerState state,
                                                 const OnPolicyBatch& batch,
                                                 const Knobs& knobs) const {
  auto [found, measures] = gradients(params, batch, knobs);
  if (learners_ > 1) {
    PartMeans means(learners_);
    means.add(found, measures);
    means.finish(found, measures);
  }
  auto [next, next_state] = clipped_update(optimizer_, std::move(params), std::move(found),
                                           std::move(state), knobs.lr, measures);
  return {std::move(next), std::move(next_state), std::move(measures)};
}

NamedNumbers OnPolicyLearner::step(const OnPolicyBatch& batch, const Knobs& knobs,
                                   CentralLearner* central) {
  if (central != nullptr) {
    auto [found, measures] = gradients_(params_, batch, knobs);
    central->exchange(found, params_);
    return measures;
  }
  Updated next = step_(std::move(params_), std::move(state_), batch, knobs);
  params_ = std::move(next.params);
  state_ = std::move(next.state);
  return std::move(next.measures);
}

double OnPolicyLearner::serve(CentralServer& others, double progress) {
  const Params found = others.gather(params_);
  Updated next = apply_(std::move(params_), std::move(state_), found,
                        scalar(config_.schedule.lr_at(config_.optimizer.lr, progress)));
  params_ = std::move(next.params);
  state_ = std::move(next.state);
  others.publish(params_);
  return item(next.measures.front().second);
}

std::vector<float> OnPolicyLearner::ratios(Rollout& rollout) const {
  const int64_t n = rollout.steps * rollout.rows;
  std::vector<int32_t> all(count(n));
  std::iota(all.begin(), all.end(), 0);
  const Judgement now =
      judge_(params_, tensor<float>(rollout.observations, {n, rollout.observation_size}),
             tensor<float>(rollout.actions, {n, rollout.action_size}), past(rollout, all));
  const HostRead log_probs(now.log_prob_n);
  const HostRead values(now.value_n);
  std::ranges::copy(values.values<float>(), rollout.values.begin());
  std::vector<float> out(count(n));
  std::ranges::transform(log_probs.values<float>(), rollout.log_probs, out.begin(),
                         [](float now, float then) { return std::exp(now - then); });
  return out;
}

std::vector<int32_t> OnPolicyLearner::order_of_rows(const Rollout& rollout,
                                                    int64_t first_row) const {
  std::vector<int32_t> rows(count(rollout.rows));
  std::iota(rows.begin(), rows.end(), 0);
  Rng rng(static_cast<uint64_t>(config_.run.seed),
          kOrderStream + (static_cast<uint64_t>(passes_) << 24) + static_cast<uint64_t>(first_row));
  rng.shuffle(rows);
  const int64_t part = rollout.rows / algorithm_.minibatches;
  std::vector<int32_t> out;
  for (int64_t first = 0; first < rollout.rows; first += part) {
    for (int64_t step = 0; step < rollout.steps; ++step) {
      for (int64_t i = first; i < first + part; ++i) {
        out.push_back(static_cast<int32_t>(step * rollout.rows) + rows[count(i)]);
      }
    }
  }
  return out;
}

std::optional<Past> OnPolicyLearner::past(const Rollout& rollout,
                                          std::span<const int32_t> at) const {
  if (rollout.memory_size == 0) {
    return std::nullopt;
  }
  const auto rows = static_cast<int64_t>(at.size()) / rollout.steps;
  HostWrite kept({Dtype::kF32, {rollout.steps, rows}});
  const std::span<float> flags = kept.values<float>();
  for (size_t i = 0; i < at.size(); ++i) {
    // In front of the first step what is remembered is zero where an episode begins.
    const int64_t before = at[i] - rollout.rows;
    const bool begins = before >= 0 && (rollout.terminated[count(before)] != 0 ||
                                        rollout.truncated[count(before)] != 0);
    flags[i] = begins ? 0.0F : 1.0F;
  }
  return Past{rows_of(rollout.memory, at.first(count(rows)), {rows, rollout.memory_size}),
              kept.finish()};
}

std::vector<int32_t> OnPolicyLearner::order(const Rollout& rollout, int64_t first_row) const {
  if (rollout.memory_size > 0) {
    return order_of_rows(rollout, first_row);
  }
  const int64_t part = rollout.steps / algorithm_.minibatches;
  std::vector<int32_t> out(count(rollout.steps * rollout.rows));
  std::vector<int32_t> steps(count(rollout.steps));
  for (int64_t row = 0; row < rollout.rows; ++row) {
    std::iota(steps.begin(), steps.end(), 0);
    Rng rng(static_cast<uint64_t>(config_.run.seed), kOrderStream +
                                                         (static_cast<uint64_t>(passes_) << 24) +
                                                         static_cast<uint64_t>(first_row + row));
    rng.shuffle(steps);
    for (int64_t i = 0; i < rollout.steps; ++i) {
      const int64_t minibatch = i / part;
      const int64_t place = (minibatch * rollout.rows + row) * part + i % part;
      out[count(place)] = static_cast<int32_t>(steps[count(i)] * rollout.rows + row);
    }
  }
  return out;
}

std::vector<float> OnPolicyLearner::normalised(std::span<const float> advantages,
                                               std::span<const int32_t> order) const {
  std::vector<float> out(advantages.begin(), advantages.end());
  const size_t part = order.size() / count(algorithm_.minibatches);
  const double n = static_cast<double>(part) * static_cast<double>(learners_);
  if (!algorithm_.normalize_advantages || n == 1) {  // one alone would be 0
    return out;
  }
  std::vector<double> sums(2 * count(algorithm_.minibatches));  // of values, of squares
  for (size_t begin = 0; begin < order.size(); begin += part) {
    double sum = 0, squares = 0;
    for (const int32_t at : order.subspan(begin, part)) {
      const double value = advantages[count(at)];
      sum += value;
      squares += value * value;
    }
    sums[2 * (begin / part)] = sum;
    sums[2 * (begin / part) + 1] = squares;
  }
  if (ranks_ != nullptr) {
    const Elements all{sums.data(), static_cast<int64_t>(sums.size()), Dtype::kF64};
    ranks_->all_reduce(all, all, Reduction::kSum, "advantages").wait();
  }
  for (size_t begin = 0; begin < order.size(); begin += part) {
    const double mean = sums[2 * (begin / part)] / n;
    const double variance = std::max(0.0, sums[2 * (begin / part) + 1] / n - mean * mean);
    const double deviation = std::sqrt(variance) + kSmallDeviation;
    for (const int32_t at : order.subspan(begin, part)) {
      float& value = out[count(at)];
      value = static_cast<float>((value - mean) / deviation);
    }
  }
  return out;
}

OnPolicyBatch OnPolicyLearner::batch(const Rollout& rollout, std::span<const float> advantages,
                                     std::span<const float> targets,
                                     std::span<const int32_t> at) const {
  const auto b = static_cast<int64_t>(at.size());
  return {rows_of(rollout.observations, at, {b, rollout.observation_size}),
          rows_of(rollout.actions, at, {b, rollout.action_size}),
          rows_of(rollout.log_probs, at, {b}),
          rows_of(rollout.values, at, {b}),
          rows_of(advantages, at, {b}),
          rows_of(targets, at, {b}),
          past(rollout, at)};
}

Measures OnPolicyLearner::learn(Rollout& rollout, int64_t first_row, double progress,
                                CentralLearner* central) {
  const size_t n = rollout.rewards.size();
  const size_t part = n / count(algorithm_.minibatches);
  std::vector<float> advantages(n);
  std::vector<float> targets(n);
  const double lr = config_.schedule.lr_at(config_.optimizer.lr, progress);
  const Knobs knobs{scalar(lr), scalar(algorithm_.clip_at(progress)), scalar(kl_weight_)};
  Measures sums;
  int64_t updates = 0;
  double kl = 0;  // of the last pass
  for (int64_t epoch = 0; epoch < algorithm_.epochs; ++epoch) {
    if (epoch == 0 || algorithm_.uses_ratios()) {
      const std::vector<float> changed =
          algorithm_.uses_ratios() ? ratios(rollout) : std::vector<float>();
      algorithm_.estimate(rollout.trajectories(), changed, advantages, targets);
    }
    const std::vector<int32_t> taken = order(rollout, first_row);
    const std::vector<float> scaled = normalised(advantages, taken);
    ++passes_;
    kl = 0;
    for (size_t begin = 0; begin < n; begin += part) {
      const NamedNumbers measures = step(
          batch(rollout, scaled, targets, std::span(taken).subspan(begin, part)), knobs, central);
      sums.resize(measures.size());
      for (size_t i = 0; i < sums.size(); ++i) {
        const double value = item(measures[i].second);
        sums[i].first = measures[i].first;
        sums[i].second += value;
        kl += sums[i].first == "kl" ? value / static_cast<double>(algorithm_.minibatches) : 0;
      }
      ++updates;
      check(
          std::isfinite(sums[0].second),
          "{}: pass {} over the steps: the loss is {}; the run diverged (a lower optimizer.lr may "
          "help)",
          algorithm_.type, passes_, sums[0].second);
    }
    if (algorithm_.last_kl() && kl > *algorithm_.last_kl()) {
      break;
    }
  }
  if (const auto target = algorithm_.adaptive_kl()) {  // Schulman et al. 2017, section 4
    const double change = kl > 1.5 * *target ? 2 : kl < *target / 1.5 ? 0.5 : 1;
    kl_weight_ = std::clamp(kl_weight_ * change, kLeastKlWeight, kMostKlWeight);
    sums.emplace_back("kl_weight", kl_weight_ * static_cast<double>(updates));
  }
  for (auto& [name, sum] : sums) {
    sum /= static_cast<double>(updates);
  }
  sums.emplace_back("lr", lr);
  return sums;
}

void OnPolicyLearner::broadcast(Communicator& ranks) {
  std::vector<float> flat = flat_of(params_);
  ranks.broadcast({flat.data(), static_cast<int64_t>(flat.size()), Dtype::kF32}, 0, "parameters")
      .wait();
  if (ranks.rank() != 0) {
    from_flat(flat, params_);
  }
}

void OnPolicyLearner::save(ByteWriter& to) const {
  to.put(passes_);
  to.put(kl_weight_);
}

void OnPolicyLearner::load(ByteReader& from) {
  passes_ = from.get<int64_t>();
  kl_weight_ = from.get<double>();
}

}  // namespace mstrain::reinforcement
