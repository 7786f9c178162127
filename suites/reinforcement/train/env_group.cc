#include "suites/reinforcement/train/env_group.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace mstrain::reinforcement {
namespace {

constexpr uint32_t kNoiseSite = 0x6e6f6973;  // apart from what environments draw

// Uniform in (0, 1): the middles of 2^24 equal parts.
float open_unit(uint32_t bits) {
  // The last one's middle is rounded to 1.
  return std::min((static_cast<float>(bits >> 8) + 0.5F) * 0x1p-24F, 1 - 0x1p-24F);
}

}  // namespace

void Environments::resize(const EnvSpec& spec, int64_t n) {
  const int64_t rows = n * spec.agents;
  observations_.resize(count(rows * spec.observation.size()));
  final_observations_.resize(observations_.size());
  rewards_.resize(count(rows));
  legal_.resize(count(spec.masks ? rows * spec.action.n : 0));
  terminated_.resize(count(n));
  truncated_.resize(count(n));
}

void draw_noise(uint64_t seed, int64_t step, int64_t first_row, int64_t rows, bool normal,
                int64_t width, std::span<float> out) {
  const PhiloxKey key = philox_key(seed);
  const auto when = static_cast<uint64_t>(step);
  size_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto who = static_cast<uint32_t>(first_row + row);
    for (int64_t i = 0; i < width; i += 2) {
      const auto site = kNoiseSite ^ static_cast<uint32_t>(i >> 1);
      const auto bits =
          philox({static_cast<uint32_t>(when), static_cast<uint32_t>(when >> 32), who, site}, key);
      float a = open_unit(bits[0]);
      float b = open_unit(bits[1]);
      if (normal) {  // Box-Muller
        const double radius = std::sqrt(-2 * std::log(static_cast<double>(a)));
        const double angle = 2 * std::numbers::pi * static_cast<double>(b);
        a = static_cast<float>(radius * std::cos(angle));
        b = static_cast<float>(radius * std::sin(angle));
      }
      out[at++] = a;
      if (i + 1 < width) {
        out[at++] = b;
      }
    }
  }
}

EnvGroup::EnvGroup(const EnvConfig& config, int64_t n, uint64_t seed, int64_t first,
                   const VectorEnv* statistics)
    : env_(make_env(config, n)), seed_(seed), first_(first) {
  if (statistics != nullptr) {  // before wrappers keep observations
    env_->set_learning(false);
    env_->copy_statistics(*statistics);
  }
  env_->reset(seed, static_cast<uint64_t>(first));
  resize(spec(), n);
  raw_rewards_.resize(rewards_.size());
  running_.resize(count(n));
  env_->observe(observations_.data());
  look();
}

void EnvGroup::look() {
  if (!legal_.empty()) {
    env_->action_masks(legal_.data());
  }
}

void EnvGroup::draw_noise(bool normal, int64_t width, std::span<float> out, int64_t hold) const {
  reinforcement::draw_noise(seed_, steps_ - steps_ % hold, first_ * spec().agents, rows(), normal,
                            width, out);
}

void EnvGroup::convert(std::span<const float> actions) {
  if (spec().action.is_discrete()) {
    discrete_.resize(actions.size());
    std::transform(actions.begin(), actions.end(), discrete_.begin(),
                   [](float a) { return static_cast<int64_t>(a); });
    return;
  }
  box_.resize(actions.size());
  const auto width = count(spec().action.size());
  for (size_t i = 0; i < actions.size(); ++i) {
    const double low = spec().action.low[i % width];
    const double high = spec().action.high[i % width];
    check(std::isfinite(actions[i]),
          "{}: environment {}, step {}: the network's action is {}; the run diverged (a lower "
          "optimizer.lr may help)",
          spec().name, first_ + static_cast<int64_t>(i / width) / spec().agents, steps_,
          actions[i]);
    box_[i] = std::clamp(static_cast<double>(actions[i]), low, high);
  }
}

void EnvGroup::step(std::span<const float> actions) {
  convert(actions);
  env_->step({.discrete = discrete_.data(), .box = box_.data()},
             {.observations = observations_.data(),
              .rewards = rewards_.data(),
              .terminated = terminated_.data(),
              .truncated = truncated_.data(),
              .final_observations = final_observations_.data(),
              .raw_rewards = raw_rewards_.data()});
  look();
  ++steps_;
  finished_.clear();
  const int64_t agents = spec().agents;
  for (size_t env = 0; env < running_.size(); ++env) {
    Episode& episode = running_[env];
    for (int64_t agent = 0; agent < agents; ++agent) {
      episode.total +=
          raw_rewards_[env * count(agents) + count(agent)] / static_cast<double>(agents);
    }
    ++episode.length;
    if (ended(env)) {
      finished_.push_back(episode);
      episode = {};
    }
  }
}

std::string EnvGroup::save() const {
  ByteWriter out;
  out.put(first_);
  out.put(steps_);
  out.put_all(observations_);
  out.put_all(final_observations_);
  out.put_all(running_);
  out.put_text(env_->save());
  return out.take();
}

void EnvGroup::load(std::string_view bytes) {
  ByteReader in(bytes, spec().name);
  const auto first = in.get<int64_t>();
  check(first == first_, "{}: the state of environments from {} on, where {} is expected",
        spec().name, first, first_);
  steps_ = in.get<int64_t>();
  observations_ = in.get_all<float>(observations_.size());
  final_observations_ = in.get_all<float>(final_observations_.size());
  running_ = in.get_all<Episode>(running_.size());
  env_->load(in.get_text());
  in.expect_end();
  look();
}

}  // namespace mstrain::reinforcement
