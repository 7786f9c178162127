#include "suites/reinforcement/train/evaluation_look.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/image_resize.h"

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kHeight = 120;  // of a frame, at most
constexpr size_t kBins = 20;
constexpr size_t kMostNumbers = 32;    // of a box that are counted, the first ones
constexpr int64_t kMostActions = 64;   // of a discrete space that are counted apart
constexpr size_t kMostKept = 1 << 20;  // actions' numbers; steps with values

size_t bin_of(double x, double low, double high) {
  const double share = high > low ? (x - low) / (high - low) : 0;
  return std::min(static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kBins), kBins - 1);
}

Image small(Image picture) {
  if (picture.height <= kHeight) {
    return picture;
  }
  return resized(picture, kHeight, std::max<int64_t>(1, picture.width * kHeight / picture.height));
}

}  // namespace

void EvaluationLook::look(const EnvGroup& group) {
  if (seen_ % stride_ == 0) {
    frames_.push_back({seen_, small(group.env().picture(0))});
  }
  ++seen_;
  if (frames_.size() == 2 * kMoments) {
    for (size_t i = 1; i < kMoments; ++i) {
      frames_[i] = std::move(frames_[2 * i]);
    }
    frames_.resize(kMoments);
    stride_ *= 2;
  }
}

void EvaluationLook::begin(const EnvGroup& group) {
  space_ = group.spec().action;
  of_row_.resize(static_cast<size_t>(group.rows()));
  terminated_.resize(of_row_.size());
  look(group);
}

void EvaluationLook::step(const EnvGroup& group, std::span<const float> actions,
                          std::span<const float> values, std::span<const uint8_t> over) {
  const auto agents = static_cast<size_t>(group.spec().agents);
  const size_t width = actions.size() / values.size();
  for (size_t row = 0; row < values.size(); ++row) {
    const size_t env = row / agents;
    if (over[env] != 0) {
      continue;
    }
    if (actions_.size() + width <= kMostKept) {
      const auto taken = actions.subspan(row * width, width);
      actions_.insert(actions_.end(), taken.begin(), taken.end());
    }
    if (discount_ && valued_ < kMostKept && std::isfinite(values[row])) {
      of_row_[row].push_back({values[row], group.rewards()[row]});
      terminated_[row] = group.terminated()[env];
      ++valued_;
    }
  }
  if (over[0] == 0 && !group.ended(0)) {
    look(group);
  }
}

OrderedJson EvaluationLook::counted_actions() const {
  if (space_.is_discrete()) {
    const int64_t each = (space_.n + kMostActions - 1) / kMostActions;
    std::vector<int64_t> counts(static_cast<size_t>((space_.n + each - 1) / each));
    for (const float action : actions_) {
      ++counts[static_cast<size_t>(static_cast<int64_t>(action) / each)];
    }
    return {{"each", each}, {"counts", counts}};
  }
  const auto width = static_cast<size_t>(space_.size());
  OrderedJson out{{"numbers", width}};
  for (size_t number = 0; number < std::min(width, kMostNumbers); ++number) {
    double low = space_.low[number];
    double high = space_.high[number];
    if (!std::isfinite(low) || !std::isfinite(high)) {
      low = high = actions_[number];
      for (size_t i = number; i < actions_.size(); i += width) {
        low = std::min<double>(low, actions_[i]);
        high = std::max<double>(high, actions_[i]);
      }
    }
    std::vector<int64_t> counts(kBins);
    for (size_t i = number; i < actions_.size(); i += width) {
      ++counts[bin_of(actions_[i], low, high)];
    }
    out["low"].push_back(rounded(low));
    out["high"].push_back(rounded(high));
    out["counts"].push_back(counts);
  }
  return out;
}

OrderedJson EvaluationLook::compared_values() const {
  std::vector<Forecasted> states;
  for (size_t row = 0; row < of_row_.size(); ++row) {
    std::span<const Valued> steps = of_row_[row];
    double came = 0;
    if (!steps.empty() && terminated_[row] == 0) {
      came = steps.back().value;
      steps = steps.first(steps.size() - 1);
    }
    for (size_t i = steps.size(); i-- > 0;) {
      came = steps[i].reward + *discount_ * came;
      states.push_back({steps[i].value, came});
    }
  }
  return compared(std::move(states));
}

OrderedJson EvaluationLook::row() const {
  OrderedJson out;
  add_strip(out, frames_);
  if (!actions_.empty()) {
    out["actions"] = counted_actions();
  }
  if (OrderedJson values = compared_values(); !values.is_null()) {
    out["values"] = std::move(values);
  }
  return out;
}

}  // namespace mstrain::reinforcement
