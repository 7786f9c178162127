#include "suites/reinforcement/train/replay.h"

#include <algorithm>

#include "core/base/rng.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint64_t kDrawStream = 0x7265706c6179;  // apart from other draws of the run

}  // namespace

Replay::Replay(const ReplayShape& shape, std::unique_ptr<StepStore> steps)
    : shape_(shape), steps_(std::move(steps)) {
  check(shape.steps >= shape.length(),
        "Replay: {} steps of each row do not hold {} that follow each other", shape.steps,
        shape.length());
  if (shape.priority_exponent) {
    tree_.emplace(shape.items());
  }
}

int64_t Replay::drawable() const {
  return std::max<int64_t>(0, steps_->added() - steps_->oldest() - shape_.length() + 1);
}

int64_t Replay::step_at(int64_t place) const {
  const int64_t slot = place / shape_.rows;
  const int64_t oldest = steps_->oldest();
  const int64_t turn = oldest / shape_.steps * shape_.steps + slot;
  return turn >= oldest ? turn : turn + shape_.steps;
}

void Replay::add(std::span<const float> observations, std::span<const float> actions,
                 std::span<const float> rewards, std::span<const uint8_t> terminated,
                 std::span<const uint8_t> truncated, std::span<const float> next_observations,
                 std::span<const float> memory) {
  const size_t agents = count(shape_.own_rows()) / terminated.size();
  std::vector<float> step;
  step.reserve(count(shape_.own_rows() * shape_.step_numbers()));
  for (size_t row = 0; row < count(shape_.own_rows()); ++row) {
    const auto put = [&](std::span<const float> all, int64_t width) {
      const std::span<const float> own = all.subspan(row * count(width), count(width));
      step.insert(step.end(), own.begin(), own.end());
    };
    put(observations, shape_.observation_size);
    put(next_observations, shape_.observation_size);
    put(memory, shape_.memory_size);
    put(actions, shape_.action_size);
    step.push_back(rewards[row]);
    step.push_back(StepView::ends_of(terminated[row / agents] != 0, truncated[row / agents] != 0));
  }
  steps_->add(step);
  const int64_t newest = steps_->added() - 1;
  const int64_t complete = newest - shape_.length() + 1;  // the newest that can be drawn
  for (int64_t row = 0; tree_ && row < shape_.rows; ++row) {
    tree_->set(place(newest, row), 0);
    if (complete >= 0) {
      tree_->set(place(complete, row), greatest_);
    }
  }
}

void Replay::read(int64_t place, std::span<float> item) const {
  const int64_t first = step_at(place);
  const int64_t row = place % shape_.rows - shape_.holder * shape_.own_rows();
  std::vector<StepView> steps;
  for (int64_t i = 0; i < shape_.length(); ++i) {
    steps.emplace_back(shape_, steps_->at(first + i, row));
  }
  write_item(shape_, steps, item);
}

Drawn Replay::draw(int64_t b, uint64_t seed, uint64_t draw, double importance) const {
  check(size() > 0, "Replay: nothing to draw from");
  Rng rng(seed, kDrawStream + draw);
  Drawn out{.places = {}, .weights = std::vector<float>(count(b), 1.0F)};
  if (!tree_) {
    for (int64_t i = 0; i < b; ++i) {
      const auto at = static_cast<int64_t>(rng.below(static_cast<uint64_t>(size())));
      out.places.push_back(place(steps_->oldest() + at / shape_.rows, at % shape_.rows));
    }
    return out;
  }
  // One draw of each of b equal parts.
  std::vector<double> drawn(count(b));
  for (size_t i = 0; i < drawn.size(); ++i) {
    drawn[i] = (static_cast<double>(i) + rng.uniform()) / static_cast<double>(b) * tree_->total();
  }
  out.places = tree_->find(std::move(drawn));
  for (size_t i = 0; i < out.places.size(); ++i) {
    out.weights[i] = weight_of(*tree_, out.places[i], size(), importance);
  }
  const float heaviest = *std::ranges::max_element(out.weights);
  for (float& weight : out.weights) {
    weight /= heaviest;
  }
  return out;
}

void Replay::set_errors(std::span<const int64_t> places, std::span<const float> errors) {
  if (!tree_) {
    return;
  }
  std::vector<double> priorities;
  for (const float error : errors) {
    priorities.push_back(priority_of(error, *shape_.priority_exponent));
    greatest_ = std::max(greatest_, priorities.back());
  }
  tree_->set(places, priorities);
}

void Replay::save(ByteWriter& to, size_t more) const {
  to.reserve(count(steps_->saved_bytes() + shape_.saved_priority_bytes()) + more);
  to.put(greatest_);
  steps_->save(to);
  to.put_all(tree_ ? tree_->weights(std::min(steps_->added(), shape_.steps) * shape_.rows)
                   : std::vector<double>());
}

void Replay::load(ByteReader& from) {
  greatest_ = from.get<double>();
  steps_->load(from);
  const size_t kept = count(std::min(steps_->added(), shape_.steps) * shape_.rows);
  const std::vector<double> priorities = from.get_all<double>(tree_ ? kept : 0);
  if (tree_) {
    tree_->set_weights(priorities);
  }
}

}  // namespace mstrain::reinforcement
