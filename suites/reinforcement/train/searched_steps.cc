#include "suites/reinforcement/train/searched_steps.h"

#include <algorithm>
#include <cmath>

#include "core/base/rng.h"
#include "core/tensor/host.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint64_t kSequenceStream = 0x756e726f6c6c;  // apart from other draws of the run
constexpr uint64_t kPlaceStream = 0x616761696e;

int64_t flags_of(const EnvSpec& env) { return env.masks ? env.action.n : 0; }

}  // namespace

SearchedSteps::SearchedSteps(const MuZero& config, int64_t rows, const EnvSpec& env)
    : config_(config),
      steps_(config.buffer_size / rows),
      rows_(rows),
      observation_size_(env.observation.size()),
      actions_(env.action.n),
      flags_(flags_of(env)),
      observations_(count(steps_ * rows * observation_size_)),
      taken_(count(steps_ * rows)),
      policies_(count(steps_ * rows * actions_)),
      values_(count(steps_ * rows)),
      rewards_(count(steps_ * rows)),
      last_values_(count(steps_ * rows)),
      legal_(count(steps_ * rows * flags_)),
      terminated_(count(steps_ * rows)),
      truncated_(count(steps_ * rows)) {
  if (config.prioritised) {
    tree_.emplace(steps_ * rows);
  }
}

int64_t SearchedSteps::bytes_of(const MuZero& config, int64_t rows, const EnvSpec& env) {
  const int64_t items = config.buffer_size / rows * rows;
  return items * (4 * (env.observation.size() + env.action.n + 4) + 2 + flags_of(env)) +
         (config.prioritised ? SumTree::bytes(items) : 0);
}

void SearchedSteps::add(const SearchedStep& step) {
  const int64_t first = place(added_, 0);
  const auto keep = [&](const auto& from, auto& all, int64_t width) {
    std::ranges::copy(from, all.begin() + first * width);
  };
  keep(step.observations, observations_, observation_size_);
  keep(step.legal, legal_, flags_);
  keep(step.actions, taken_, 1);
  keep(step.policies, policies_, actions_);
  keep(step.values, values_, 1);
  keep(step.rewards, rewards_, 1);
  keep(step.terminated, terminated_, 1);
  keep(step.truncated, truncated_, 1);
  keep(step.last_values, last_values_, 1);
  ++added_;
  for (int64_t row = 0; tree_ && row < rows_; ++row) {
    tree_->set(place(added_ - 1, row), 0);
    if (drawable() > 0) {
      judge(added_ - config_.unroll - config_.n_step - 1, row);  // the newest
    }
  }
}

int64_t SearchedSteps::drawable() const {
  return std::max<int64_t>(0, stored() - config_.unroll - config_.n_step);
}

int64_t SearchedSteps::size() const { return drawable() * rows_; }

int64_t SearchedSteps::step_at(int64_t place) const {
  const int64_t behind = (added_ - 1 - place / rows_) % steps_;
  return added_ - 1 - (behind + steps_) % steps_;
}

void SearchedSteps::judge(int64_t step, int64_t row) {
  const int64_t at = place(step, row);
  const double error = static_cast<double>(values_[count(at)]) - target(step, row);
  tree_->set(at, priority_of(error, config_.priority_exponent));
}

float SearchedSteps::target(int64_t step, int64_t row) const {
  double sum = 0, discount = 1;
  for (int64_t i = 0; i < config_.n_step; ++i) {
    const size_t at = count(place(step + i, row));
    sum += discount * rewards_[at];
    discount *= config_.discount;
    if (terminated_[at] != 0) {
      return static_cast<float>(sum);
    }
    if (truncated_[at] != 0) {
      return static_cast<float>(sum + discount * last_values_[at]);
    }
  }
  return static_cast<float>(sum + discount * values_[count(place(step + config_.n_step, row))]);
}

MuZeroBatch SearchedSteps::sample(int64_t b, uint64_t seed, uint64_t draw) const {
  const int64_t unroll = config_.unroll;
  const int64_t oldest = added_ - stored();
  Rng rng(seed, kSequenceStream + draw);
  HostWrite observation({Dtype::kF32, {b, observation_size_}}), action({Dtype::kF32, {b, unroll}}),
      policy({Dtype::kF32, {b, unroll + 1, actions_}}), value({Dtype::kF32, {b, unroll + 1}}),
      reward({Dtype::kF32, {b, unroll}}), acts({Dtype::kF32, {b, unroll + 1}}),
      counts({Dtype::kF32, {b, unroll + 1}}),
      following({Dtype::kF32, {b, config_.has_chance() ? unroll : 0, observation_size_}});
  std::vector<float> weights(count(b), 1.0F);
  for (HostWrite* each :
       {&observation, &action, &policy, &value, &reward, &acts, &counts, &following}) {
    std::ranges::fill(each->values<float>(), 0.0F);
  }
  for (int64_t i = 0; i < b; ++i) {
    int64_t step = 0, row = 0;
    if (tree_) {
      const int64_t leaf = tree_->find({rng.uniform() * tree_->total()})[0];
      step = step_at(leaf);
      row = leaf % rows_;
      weights[count(i)] = weight_of(*tree_, leaf, size(), config_.importance);
    } else {
      step = oldest + static_cast<int64_t>(rng.below(static_cast<uint64_t>(drawable())));
      row = static_cast<int64_t>(rng.below(static_cast<uint64_t>(rows_)));
    }
    const int64_t first = place(step, row);
    std::copy_n(observations_.begin() + first * observation_size_, observation_size_,
                observation.values<float>().begin() + i * observation_size_);
    bool over = false;     // the episode has ended
    bool unknown = false;  // by the limit
    for (int64_t k = 0; k <= unroll; ++k) {
      const int64_t at = place(step + k, row);
      const size_t out = count(i * (unroll + 1) + k);
      counts.values<float>()[out] = unknown ? 0.0F : 1.0F;
      if (!over) {
        acts.values<float>()[out] = 1;
        value.values<float>()[out] = target(step + k, row);
        std::copy_n(policies_.begin() + at * actions_, actions_,
                    policy.values<float>().begin() + static_cast<int64_t>(out) * actions_);
      }
      if (k < unroll) {
        action.values<float>()[count(i * unroll + k)] =
            over ? static_cast<float>(rng.below(static_cast<uint64_t>(actions_)))
                 : taken_[count(at)];
        reward.values<float>()[count(i * unroll + k)] = over ? 0.0F : rewards_[count(at)];
        unknown = unknown || (!over && truncated_[count(at)] != 0 && terminated_[count(at)] == 0);
        over = over || terminated_[count(at)] != 0 || truncated_[count(at)] != 0;
        if (config_.has_chance() && !over) {
          std::copy_n(observations_.begin() + place(step + k + 1, row) * observation_size_,
                      observation_size_,
                      following.values<float>().begin() + (i * unroll + k) * observation_size_);
        }
      }
    }
  }
  const float heaviest = *std::ranges::max_element(weights);
  for (float& weight : weights) {
    weight /= heaviest;
  }
  MuZeroBatch out{observation.finish(), action.finish(), policy.finish(),
                  value.finish(),       reward.finish(), tensor<float>(weights, {b}),
                  acts.finish(),        counts.finish()};
  if (config_.has_chance()) {
    out.following_bko = following.finish();
  }
  return out;
}

std::vector<int64_t> SearchedSteps::draw_places(int64_t b, uint64_t seed, uint64_t draw) const {
  Rng rng(seed, kPlaceStream + draw);
  std::vector<int64_t> out(count(b));
  for (int64_t& each : out) {
    each = static_cast<int64_t>(rng.below(static_cast<uint64_t>(stored() * rows_)));
  }
  return out;
}

std::vector<float> SearchedSteps::observations_at(std::span<const int64_t> places) const {
  std::vector<float> out;
  for (const int64_t at : places) {
    const auto begin = observations_.begin() + at * observation_size_;
    out.insert(out.end(), begin, begin + observation_size_);
  }
  return out;
}

std::vector<uint8_t> SearchedSteps::legal_at(std::span<const int64_t> places) const {
  std::vector<uint8_t> out;
  for (const int64_t at : places) {
    const auto begin = legal_.begin() + at * flags_;
    out.insert(out.end(), begin, begin + flags_);
  }
  return out;
}

void SearchedSteps::refresh(std::span<const int64_t> places, std::span<const float> policies,
                            std::span<const float> values) {
  for (size_t i = 0; i < places.size(); ++i) {
    std::copy_n(policies.begin() + static_cast<int64_t>(i) * actions_, actions_,
                policies_.begin() + places[i] * actions_);
    values_[count(places[i])] = values[i];
  }
  for (const int64_t each : places) {
    if (tree_ && step_at(each) < added_ - stored() + drawable()) {
      judge(step_at(each), each % rows_);
    }
  }
}

void SearchedSteps::save(ByteWriter& to, size_t more) const {
  const int64_t items = stored() * rows_;
  int64_t bytes = tree_ ? items * static_cast<int64_t>(sizeof(double)) : 0;
  int64_t lists = 1 + (tree_ ? 1 : 0);  // and what was added
  each_kept(*this, [&](const auto& all, int64_t width) {
    bytes += items * width * static_cast<int64_t>(sizeof all[0]);
    ++lists;
  });
  to.reserve(count(bytes) + count(lists) * sizeof(uint64_t) + more);
  to.put(added_);
  each_kept(*this, [&](const auto& all, int64_t width) {
    to.put_all(std::span(all).first(count(items * width)));
  });
  if (tree_) {
    to.put_all(std::span<const double>(tree_->weights(items)));
  }
}

void SearchedSteps::load(ByteReader& from) {
  added_ = from.get<int64_t>();
  check(added_ >= 0, "steps: a saved state of {} steps", added_);
  // As many items as are kept, or, of earlier versions, as there is room for.
  const auto items = [&](int64_t width) {
    const int64_t all = steps_ * rows_ * width;
    return from.size_of_next() == count(all) ? count(all) : count(stored() * rows_ * width);
  };
  each_kept(*this, [&](auto& all, int64_t width) {
    using T = std::decay_t<decltype(all)>::value_type;
    std::ranges::copy(from.get_all<T>(items(width)), all.begin());
  });
  if (tree_) {
    tree_->set_weights(from.get_all<double>(items(1)));
  }
}

}  // namespace mstrain::reinforcement
