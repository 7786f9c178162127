#include "suites/reinforcement/env/wrappers.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "suites/reinforcement/env/random.h"
#include "suites/reinforcement/env/running_moments.h"

namespace mstrain::reinforcement {
namespace {

constexpr float kMostDeviations = 10;

class StickyActions final : public Wrapper {
 public:
  StickyActions(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset),
        probability_(config.sticky_actions),
        own_(*inner_),
        width_(spec_.agents * spec_.action.size()),
        has_last_(static_cast<size_t>(size())),
        draws_(static_cast<size_t>(size())) {
    const auto numbers = static_cast<size_t>(size() * width_);
    (spec_.action.is_discrete() ? discrete_.resize(numbers) : box_.resize(numbers));
  }

  void step(const Actions& actions, const StepBuffers& out) override {
    for (int64_t i = 0; i < size(); ++i) {
      const auto at = static_cast<size_t>(i);
      // A draw for every step, so that streams do not depend on what happens.
      EnvRandom random(seed_, DrawSite::kStickyActions, first_env_ + at, 0, draws_[at]);
      const bool repeats = random.uniform() < probability_;
      if (has_last_[at] != 0 && repeats) {
        continue;
      }
      if (spec_.action.is_discrete()) {
        std::copy_n(actions.discrete + i * width_, width_, discrete_.data() + i * width_);
      } else {
        std::copy_n(actions.box + i * width_, width_, box_.data() + i * width_);
      }
      has_last_[at] = is_still(i) ? 0 : 1;
    }
    const StepBuffers given = own_.filled(out);
    inner_->step(spec_.action.is_discrete() ? Actions{.discrete = discrete_.data()}
                                            : Actions{.box = box_.data()},
                 given);
    note_ends(given.terminated, given.truncated);
    for (size_t i = 0; i < has_last_.size(); ++i) {
      if ((given.terminated[i] | given.truncated[i]) != 0) {
        has_last_[i] = 0;  // an episode begins with an action of its own
      }
    }
  }

 protected:
  std::string_view kind() const override { return "sticky actions"; }
  void begin_all(uint64_t seed, uint64_t first_env) override {
    seed_ = seed;
    first_env_ = first_env;
    std::fill(has_last_.begin(), has_last_.end(), 0);
    std::fill(draws_.begin(), draws_.end(), 0);
  }
  void save_own(ByteWriter& out) const override {
    out.put(seed_);
    out.put(first_env_);
    out.put_all(discrete_);
    out.put_all(box_);
    out.put_all(has_last_);
    out.put_all(draws_);
  }
  void load_own(ByteReader& in) override {
    seed_ = in.get<uint64_t>();
    first_env_ = in.get<uint64_t>();
    discrete_ = in.get_all<int64_t>(discrete_.size());
    box_ = in.get_all<double>(box_.size());
    has_last_ = in.get_all<uint8_t>(has_last_.size());
    draws_ = in.get_all<uint32_t>(draws_.size());
  }

 private:
  double probability_;
  OwnBuffers own_;
  int64_t width_;  // numbers of one environment's action
  uint64_t seed_ = 0, first_env_ = 0;
  std::vector<int64_t> discrete_;  // the last actions that were taken
  std::vector<double> box_;
  std::vector<uint8_t> has_last_;
  std::vector<uint32_t> draws_;
};

class ScaledRewards final : public Wrapper {
 public:
  ScaledRewards(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset), scale_(static_cast<float>(config.scale_rewards)) {}

  void step(const Actions& actions, const StepBuffers& out) override {
    inner_->step(actions, out);
    for (int64_t i = 0; out.rewards != nullptr && i < rows(); ++i) {
      out.rewards[i] *= scale_;
    }
  }

 protected:
  std::string_view kind() const override { return "scaled rewards"; }
  void save_own(ByteWriter&) const override {}
  void load_own(ByteReader&) override {}

 private:
  float scale_;
};

class ClippedRewards final : public Wrapper {
 public:
  ClippedRewards(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset), most_(static_cast<float>(*config.clip_rewards)) {}

  void step(const Actions& actions, const StepBuffers& out) override {
    inner_->step(actions, out);
    for (int64_t i = 0; out.rewards != nullptr && i < rows(); ++i) {
      out.rewards[i] = std::clamp(out.rewards[i], -most_, most_);
    }
  }

 protected:
  std::string_view kind() const override { return "clipped rewards"; }
  void save_own(ByteWriter&) const override {}
  void load_own(ByteReader&) override {}

 private:
  float most_;
};

// Rewards divided by the deviation of the discounted sum of those so far (as in OpenAI Baselines' VecNormalize).
class NormalisedRewards final : public Wrapper {
 public:
  NormalisedRewards(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset),
        discount_(config.normalize_discount),
        own_(*inner_),
        sums_(static_cast<size_t>(rows())) {}

  void step(const Actions& actions, const StepBuffers& out) override {
    const StepBuffers given = own_.filled(out);
    inner_->step(actions, given);
    for (size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] = static_cast<float>(sums_[i] * discount_ + given.rewards[i]);
    }
    if (is_learning_) {
      moments_.add(sums_.data(), static_cast<int64_t>(sums_.size()));
    }
    const auto scale = static_cast<float>(1 / std::sqrt(moments_.variance(0) + 1e-8));
    for (int64_t i = 0; i < rows(); ++i) {
      given.rewards[i] = std::clamp(given.rewards[i] * scale, -kMostDeviations, kMostDeviations);
      const int64_t env = i / spec_.agents;
      if ((given.terminated[env] | given.truncated[env]) != 0) {
        sums_[static_cast<size_t>(i)] = 0;
      }
    }
  }
  void set_learning(bool learning) override {
    is_learning_ = learning;
    Wrapper::set_learning(learning);
  }

 protected:
  std::string_view kind() const override { return "normalised rewards"; }
  void begin_all(uint64_t, uint64_t) override { std::fill(sums_.begin(), sums_.end(), 0); }
  void save_own(ByteWriter& out) const override {
    moments_.save(out);
    out.put_all(sums_);
  }
  void load_own(ByteReader& in) override {
    moments_.load(in);
    sums_ = in.get_all<float>(sums_.size());
  }
  void copy_own(const Wrapper& from) override {
    moments_ = dynamic_cast<const NormalisedRewards&>(from).moments_;
  }

 private:
  double discount_;
  bool is_learning_ = true;
  OwnBuffers own_;
  RunningMoments moments_{1};
  std::vector<float> sums_;  // [n, A]
};

class NormalisedObservations final : public Wrapper {
 public:
  NormalisedObservations(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset), own_(*inner_), moments_(spec_.observation.size()) {
    const auto numbers = static_cast<size_t>(spec_.observation.size());
    spec_.observation.low.assign(numbers, -kMostDeviations);
    spec_.observation.high.assign(numbers, kMostDeviations);
  }

  void observe(float* out) const override {
    inner_->observe(out);
    moments_.normalise(out, rows(), kMostDeviations, out);
  }
  void step(const Actions& actions, const StepBuffers& out) override {
    const StepBuffers given = own_.filled(out);
    inner_->step(actions, given);
    if (is_learning_) {
      moments_.add(given.observations, rows());
    }
    moments_.normalise(given.observations, rows(), kMostDeviations, given.observations);
    const int64_t numbers = spec_.agents * spec_.observation.size();
    for (int64_t i = 0; i < size(); ++i) {
      if ((given.terminated[i] | given.truncated[i]) != 0) {
        float* row = given.final_observations + i * numbers;
        moments_.normalise(row, spec_.agents, kMostDeviations, row);
      }
    }
  }
  void set_learning(bool learning) override {
    is_learning_ = learning;
    Wrapper::set_learning(learning);
  }

 protected:
  std::string_view kind() const override { return "normalised observations"; }
  void begin_all(uint64_t, uint64_t) override {
    if (is_learning_) {
      inner_->observe(own_.observations.data());
      moments_.add(own_.observations.data(), rows());
    }
  }
  void save_own(ByteWriter& out) const override { moments_.save(out); }
  void load_own(ByteReader& in) override { moments_.load(in); }
  void copy_own(const Wrapper& from) override {
    moments_ = dynamic_cast<const NormalisedObservations&>(from).moments_;
  }

 private:
  bool is_learning_ = true;
  OwnBuffers own_;
  RunningMoments moments_;
};

// The last k observations, the oldest first; an episode begins with k times its first one.
class FrameStack final : public Wrapper {
 public:
  FrameStack(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset),
        k_(config.frame_stack),
        one_(spec_.observation.size()),
        own_(*inner_),
        frames_(static_cast<size_t>(rows() * k_ * one_)) {
    const Space single = spec_.observation;
    spec_.observation.shape = single.shape.with_inserted(0, k_);
    for (int64_t j = 1; j < k_; ++j) {
      spec_.observation.low.insert(spec_.observation.low.end(), single.low.begin(),
                                   single.low.end());
      spec_.observation.high.insert(spec_.observation.high.end(), single.high.begin(),
                                    single.high.end());
    }
  }

  void observe(float* out) const override { std::copy(frames_.begin(), frames_.end(), out); }

  void step(const Actions& actions, const StepBuffers& out) override {
    StepBuffers inner = out;
    inner.observations = nullptr;
    inner.final_observations = nullptr;
    inner = own_.filled(inner);
    inner_->step(actions, inner);
    const int64_t stacked = k_ * one_;
    for (int64_t row = 0; row < rows(); ++row) {
      const int64_t env = row / spec_.agents;
      const bool ended = (inner.terminated[env] | inner.truncated[env]) != 0;
      float* frames = frames_.data() + row * stacked;
      const float* seen = inner.observations + row * one_;
      if (is_still(env)) {
        if (begins_when_still()) {
          fill(frames, seen);
        }
      } else {
        push(frames, ended ? inner.final_observations + row * one_ : seen);
      }
      if (ended) {
        if (out.final_observations != nullptr) {
          std::copy_n(frames, stacked, out.final_observations + row * stacked);
        }
        if (begins_at_end()) {
          fill(frames, seen);
        }
      }
    }
    note_ends(inner.terminated, inner.truncated);
    if (out.observations != nullptr) {
      observe(out.observations);
    }
  }

 protected:
  std::string_view kind() const override { return "frame stack"; }
  void begin_all(uint64_t, uint64_t) override {
    inner_->observe(own_.observations.data());
    for (int64_t row = 0; row < rows(); ++row) {
      fill(frames_.data() + row * k_ * one_, own_.observations.data() + row * one_);
    }
  }
  void save_own(ByteWriter& out) const override { out.put_all(frames_); }
  void load_own(ByteReader& in) override { frames_ = in.get_all<float>(frames_.size()); }

 private:
  void push(float* frames, const float* seen) const {
    std::copy(frames + one_, frames + k_ * one_, frames);
    std::copy_n(seen, one_, frames + (k_ - 1) * one_);
  }
  void fill(float* frames, const float* seen) const {
    for (int64_t j = 0; j < k_; ++j) {
      std::copy_n(seen, one_, frames + j * one_);
    }
  }

  int64_t k_, one_;
  OwnBuffers own_;
  std::vector<float> frames_;  // [n, A, k, one]
};

// Each agent's observation and which one it is, so that equal policies need not do the same; behind it the observations of all agents of its
// environment.
class TeamView final : public Wrapper {
 public:
  TeamView(std::unique_ptr<VectorEnv> inner, const EnvConfig& config)
      : Wrapper(std::move(inner), config.reset),
        one_(spec_.observation.size()),
        own_(*inner_),
        seen_(own_.observations.size()) {
    if (spec_.agents == 1) {
      throw ConfigError(fmt::format("environment.team_view: {} has one agent", spec_.name));
    }
    const Space single = spec_.observation;
    spec_.own_numbers = one_ + spec_.agents;
    spec_.observation = Space::box(single.low, single.high);
    spec_.observation.low.insert(spec_.observation.low.end(), static_cast<size_t>(spec_.agents), 0);
    spec_.observation.high.insert(spec_.observation.high.end(), static_cast<size_t>(spec_.agents),
                                  1);
    for (int64_t agent = 0; agent < spec_.agents; ++agent) {
      spec_.observation.low.insert(spec_.observation.low.end(), single.low.begin(),
                                   single.low.end());
      spec_.observation.high.insert(spec_.observation.high.end(), single.high.begin(),
                                    single.high.end());
    }
    spec_.observation.shape = {std::ssize(spec_.observation.low)};
  }

  void observe(float* out) const override {
    inner_->observe(seen_.data());
    show(seen_.data(), out);
  }

  void step(const Actions& actions, const StepBuffers& out) override {
    StepBuffers inner = out;
    inner.observations = nullptr;
    inner.final_observations = nullptr;
    inner = own_.filled(inner);
    inner_->step(actions, inner);
    if (out.observations != nullptr) {
      show(inner.observations, out.observations);
    }
    if (out.final_observations != nullptr) {
      show(inner.final_observations, out.final_observations);
    }
  }

 protected:
  std::string_view kind() const override { return "team view"; }
  void save_own(ByteWriter&) const override {}
  void load_own(ByteReader&) override {}

 private:
  void show(const float* seen, float* out) const {
    const int64_t team = spec_.agents * one_;
    for (int64_t row = 0; row < rows(); ++row) {
      out = std::copy_n(seen + row * one_, one_, out);
      for (int64_t agent = 0; agent < spec_.agents; ++agent) {
        *out++ = agent == row % spec_.agents ? 1.0F : 0.0F;
      }
      out = std::copy_n(seen + row / spec_.agents * team, team, out);
    }
  }

  int64_t one_;
  OwnBuffers own_;
  mutable std::vector<float> seen_;
};

}  // namespace

OwnBuffers::OwnBuffers(const VectorEnv& env) {
  const auto n = static_cast<size_t>(env.size());
  const size_t rows = n * static_cast<size_t>(env.spec().agents);
  observations.resize(rows * static_cast<size_t>(env.spec().observation.size()));
  finals.resize(observations.size());
  rewards.resize(rows);
  terminated.resize(n);
  truncated.resize(n);
}

StepBuffers OwnBuffers::filled(const StepBuffers& wanted) {
  const auto or_own = [](auto* theirs, auto& mine) { return theirs ? theirs : mine.data(); };
  return {or_own(wanted.observations, observations), or_own(wanted.rewards, rewards),
          or_own(wanted.terminated, terminated),     or_own(wanted.truncated, truncated),
          or_own(wanted.final_observations, finals), wanted.raw_rewards};
}

void Wrapper::note_ends(const uint8_t* terminated, const uint8_t* truncated) {
  for (size_t i = 0; i < still_.size(); ++i) {
    still_[i] = mode_ != ResetMode::kSameStep && (terminated[i] | truncated[i]) != 0 ? 1 : 0;
  }
}

void Wrapper::copy_statistics(const VectorEnv& from) {
  const auto* theirs = dynamic_cast<const Wrapper*>(&from);
  check(theirs != nullptr && theirs->kind() == kind(),
        "{}: copy_statistics() of an environment with other wrappers", spec_.name);
  copy_own(*theirs);
  inner_->copy_statistics(*theirs->inner_);
}

std::string Wrapper::save() const {
  ByteWriter out;
  out.put_text(kind());
  out.put_all(still_);
  save_own(out);
  out.put_text(inner_->save());
  return out.take();
}

void Wrapper::load(std::string_view bytes) {
  ByteReader in(bytes, spec_.name);
  in.expect_text(kind());
  auto still = in.get_all<uint8_t>(still_.size());
  load_own(in);
  const std::string_view inside = in.get_text();
  in.expect_end();
  inner_->load(inside);
  still_ = std::move(still);
}

std::unique_ptr<VectorEnv> wrapped(std::unique_ptr<VectorEnv> env, const EnvConfig& config) {
  const auto wrap = [&]<class W>(bool wanted) {
    if (wanted) {
      env = std::make_unique<W>(std::move(env), config);
    }
  };
  if (config.sticky_actions > 0 && env->spec().masks) {
    throw ConfigError(
        fmt::format("environment.sticky_actions: {} has actions that are not always legal, which "
                    "cannot be repeated; expected 0",
                    env->spec().name));
  }
  wrap.operator()<StickyActions>(config.sticky_actions > 0);
  wrap.operator()<ScaledRewards>(config.scale_rewards != 1);
  wrap.operator()<ClippedRewards>(config.clip_rewards.has_value());
  wrap.operator()<NormalisedRewards>(config.normalize_rewards);
  wrap.operator()<NormalisedObservations>(config.normalize_observations);
  wrap.operator()<FrameStack>(config.frame_stack > 1);
  wrap.operator()<TeamView>(config.team_view);
  return env;
}

}  // namespace mstrain::reinforcement
