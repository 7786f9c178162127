#include "suites/reinforcement/train/replay.h"

#include <algorithm>

#include "core/base/rng.h"
#include "core/tensor/host.h"
#include "suites/reinforcement/algorithms/estimators.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint64_t kDrawStream = 0x7265706c6179;  // apart from other draws of the run

// Values of the step at `slot` of a ring that is filled from its beginning.
template <class T>
void put(std::vector<T>& ring, int64_t slot, std::span<const T> values) {
  const size_t at = count(slot) * values.size();
  if (ring.size() == at) {
    ring.insert(ring.end(), values.begin(), values.end());
  } else {
    std::ranges::copy(values, ring.begin() + static_cast<ptrdiff_t>(at));
  }
}

}  // namespace

int64_t ReplayShape::bytes() const {
  return items() * item_bytes() + (priority_exponent ? SumTree::bytes(items()) : 0);
}

int64_t ReplayShape::saved_bytes() const {
  constexpr int64_t kNumbers = 9 * 8;  // two, and sizes of seven lists
  return items() * (item_bytes() + (priority_exponent ? 8 : 0)) + kNumbers;
}

Replay::Replay(const ReplayShape& shape) : shape_(shape) {
  check(shape.steps >= shape.n_step,
        "Replay: {} steps of each row do not hold {} that follow each other", shape.steps,
        shape.n_step);
  reserve();
  if (shape.priority_exponent) {
    tree_.emplace(shape.items());
  }
}

void Replay::reserve() {
  const size_t items = count(shape_.items());
  observations_.reserve(items * count(shape_.observation_size));
  actions_.reserve(items * count(shape_.action_size));
  rewards_.reserve(items);
  next_observations_.reserve(items * count(shape_.observation_size));
  terminated_.reserve(items);
  truncated_.reserve(items);
}

int64_t Replay::drawable() const {
  return std::max<int64_t>(0, added_ - oldest() - shape_.n_step + 1);
}

int64_t Replay::step_at(int64_t place) const {
  const int64_t slot = place / shape_.rows;
  const int64_t turn = oldest() / shape_.steps * shape_.steps + slot;
  return turn >= oldest() ? turn : turn + shape_.steps;
}

void Replay::add(std::span<const float> observations, std::span<const float> actions,
                 std::span<const float> rewards, std::span<const uint8_t> terminated,
                 std::span<const uint8_t> truncated, std::span<const float> next_observations) {
  const int64_t slot = added_ % shape_.steps;
  const size_t agents = count(shape_.rows) / terminated.size();
  std::vector<uint8_t> ended(count(shape_.rows)), cut(count(shape_.rows));
  for (size_t i = 0; i < ended.size(); ++i) {
    ended[i] = terminated[i / agents];
    cut[i] = truncated[i / agents];
  }
  put(observations_, slot, observations);
  put(actions_, slot, actions);
  put(rewards_, slot, rewards);
  put(next_observations_, slot, next_observations);
  put(terminated_, slot, std::span<const uint8_t>(ended));
  put(truncated_, slot, std::span<const uint8_t>(cut));
  ++added_;
  const int64_t complete = added_ - shape_.n_step;  // the newest step that can be drawn
  for (int64_t row = 0; tree_ && row < shape_.rows; ++row) {
    tree_->set(place(added_ - 1, row), 0);
    if (complete >= 0) {
      tree_->set(place(complete, row), greatest_);
    }
  }
}

ReplaySample Replay::sample(int64_t b, uint64_t seed, uint64_t draw, double importance) const {
  check(size() > 0, "Replay: nothing to draw from");
  ReplaySample out;
  Rng rng(seed, kDrawStream + draw);
  std::vector<float> weights(count(b), 1.0F);
  for (int64_t i = 0; i < b; ++i) {
    if (!tree_) {
      const auto at = static_cast<int64_t>(rng.below(static_cast<uint64_t>(size())));
      out.places.push_back(place(oldest() + at / shape_.rows, at % shape_.rows));
      continue;
    }
    // One draw of each of b equal parts.
    const double part = (static_cast<double>(i) + rng.uniform()) / static_cast<double>(b);
    out.places.push_back(tree_->find(part * tree_->total()));
    weights[count(i)] = weight_of(*tree_, out.places.back(), size(), importance);
  }
  const float heaviest = *std::ranges::max_element(weights);
  const auto wide = [&](int64_t width) { return HostWrite({Dtype::kF32, {b, width}}); };
  HostWrite observations = wide(shape_.observation_size), nexts = wide(shape_.observation_size),
            actions = wide(shape_.action_size);
  std::vector<float> rewards, discounts;
  // Of the steps that one stands for.
  std::vector<float> r(count(shape_.n_step));
  std::vector<uint8_t> ended(count(shape_.n_step)), cut(count(shape_.n_step));
  for (int64_t i = 0; i < b; ++i) {
    const int64_t at = out.places[count(i)];
    const int64_t step = step_at(at), row = at % shape_.rows;
    for (int64_t s = 0; s < shape_.n_step; ++s) {
      const size_t from = count(place(step + s, row));
      r[count(s)] = rewards_[from];
      ended[count(s)] = terminated_[from];
      cut[count(s)] = truncated_[from];
    }
    const NStep sum = n_step(r, ended, cut, shape_.discount);
    rewards.push_back(static_cast<float>(sum.reward));
    discounts.push_back(static_cast<float>(sum.discount));
    weights[count(i)] /= heaviest;
    const auto copy = [&](const std::vector<float>& from, int64_t from_place, HostWrite& to,
                          int64_t width) {
      std::copy_n(from.begin() + from_place * width, width, to.values<float>().begin() + i * width);
    };
    copy(observations_, at, observations, shape_.observation_size);
    copy(actions_, at, actions, shape_.action_size);
    copy(next_observations_, place(step + sum.steps - 1, row), nexts, shape_.observation_size);
  }
  out.observation_bo = observations.finish();
  out.action_bd = actions.finish();
  out.next_observation_bo = nexts.finish();
  out.reward_b = tensor<float>(rewards, {b});
  out.discount_b = tensor<float>(discounts, {b});
  out.weight_b = tensor<float>(weights, {b});
  return out;
}

void Replay::set_errors(std::span<const int64_t> places, std::span<const float> errors) {
  for (size_t i = 0; tree_ && i < places.size(); ++i) {
    const double priority = priority_of(errors[i], *shape_.priority_exponent);
    tree_->set(places[i], priority);
    greatest_ = std::max(greatest_, priority);
  }
}

void Replay::save(ByteWriter& to, size_t more) const {
  to.reserve(count(shape_.saved_bytes()) + more);
  to.put(added_);
  to.put(greatest_);
  for (const auto* each : {&observations_, &actions_, &rewards_, &next_observations_}) {
    to.put_all(*each);
  }
  to.put_all(terminated_);
  to.put_all(truncated_);
  to.put_all(tree_ ? tree_->weights(std::ssize(rewards_)) : std::vector<double>());
}

void Replay::load(ByteReader& from) {
  added_ = from.get<int64_t>();
  greatest_ = from.get<double>();
  const size_t items = count(std::min(added_, shape_.steps) * shape_.rows);
  observations_ = from.get_all<float>(items * count(shape_.observation_size));
  actions_ = from.get_all<float>(items * count(shape_.action_size));
  rewards_ = from.get_all<float>(items);
  next_observations_ = from.get_all<float>(items * count(shape_.observation_size));
  terminated_ = from.get_all<uint8_t>(items);
  truncated_ = from.get_all<uint8_t>(items);
  const std::vector<double> priorities = from.get_all<double>(tree_ ? items : 0);
  reserve();
  if (tree_) {
    tree_->set_weights(priorities);
  }
}

}  // namespace mstrain::reinforcement
