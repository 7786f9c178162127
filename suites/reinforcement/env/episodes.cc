#include "suites/reinforcement/env/episodes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "suites/reinforcement/env/lanes/loops.h"

namespace mstrain::reinforcement {
namespace {

constexpr std::string_view kStateFormat = "environment 1";

class EpisodeEnv final : public VectorEnv {
 public:
  EpisodeEnv(std::unique_ptr<Dynamics> dynamics, ResetMode mode, int64_t time_limit)
      : dynamics_(std::move(dynamics)),
        spec_(dynamics_->spec()),
        mode_(mode),
        n_(dynamics_->size()),
        row_(spec_.agents * spec_.observation.size()) {
    spec_.time_limit = time_limit;
    const auto n = static_cast<size_t>(n_);
    clock_.episode.resize(n);
    clock_.draws.resize(n);
    clock_.elapsed.resize(n);
    still_.resize(n);
    rewards_.resize(n * static_cast<size_t>(spec_.agents));
    terminated_.resize(n);
    truncated_.resize(n);
    last_row_.resize(static_cast<size_t>(row_));
    legal_.resize(spec_.masks ? static_cast<size_t>(spec_.agents * spec_.action.n) : 0);
  }

  const EnvSpec& spec() const override { return spec_; }
  int64_t size() const override { return n_; }

  void reset(uint64_t seed, uint64_t first_env) override {
    clock_.seed = seed;
    clock_.first_env = first_env;
    std::fill(clock_.episode.begin(), clock_.episode.end(), 0);
    forget_episodes();
    for (int64_t i = 0; i < n_; ++i) {
      dynamics_->begin(i, clock_);
    }
    has_begun_ = true;
  }

  void observe(float* out) const override {
    check_begun();
    dynamics_->observe(out);
    check_observations(out, 0, n_);
  }

  void step(const Actions& actions, const StepBuffers& out) override {
    check_begun();
    ++steps_;
    check_actions(actions);
    const uint8_t* still = any_still_ ? still_.data() : nullptr;
    if (any_still_) {  // what environments that stay as they are say again
      kept_rewards_ = rewards_;
      kept_terminated_ = terminated_;
      kept_truncated_ = truncated_;
      kept_elapsed_ = clock_.elapsed;
    }
    dynamics_->step(actions, still, clock_, rewards_.data(), terminated_.data());
    const bool ended =
        lane_loops().advance(clock_.elapsed.data(), n_, static_cast<int32_t>(spec_.time_limit),
                             terminated_.data(), truncated_.data());
    if (any_still_) {
      settle_still();
    }
    if (out.observations != nullptr) {
      dynamics_->observe(out.observations);
    }
    if (out.observations != nullptr) {
      check_observations(out.observations, 0, n_);
    }
    check_rewards();
    // Before the ends are settled: their rows are those of this step.
    copy(rewards_, out.rewards);
    copy(rewards_, out.raw_rewards);
    copy(terminated_, out.terminated);
    copy(truncated_, out.truncated);
    if (ended || any_still_) {
      settle_ends(out);
    }
  }

  void action_masks(uint8_t* out) const override {
    check(spec_.masks, "{}: every action is always legal; there are no masks", spec_.name);
    for (int64_t i = 0; i < n_; ++i) {
      dynamics_->mask(i, out + i * spec_.agents * spec_.action.n);
    }
  }
  void to_move(int32_t* out) const override {
    check(spec_.turns, "{}: all agents act at once", spec_.name);
    for (int64_t i = 0; i < n_; ++i) {
      out[i] = dynamics_->to_move(i);
    }
  }

  std::string save() const override {
    check_begun();
    ByteWriter out;
    out.put_text(kStateFormat);
    out.put_text(spec_.name);
    out.put(n_);
    out.put(spec_.time_limit);
    out.put(mode_);
    out.put(clock_.seed);
    out.put(clock_.first_env);
    out.put(steps_);
    out.put_all(clock_.episode);
    out.put_all(clock_.draws);
    out.put_all(clock_.elapsed);
    out.put_all(still_);
    out.put_all(rewards_);
    out.put_all(terminated_);
    out.put_all(truncated_);
    dynamics_->save(out);
    return out.take();
  }

  void load(std::string_view bytes) override {
    ByteReader in(bytes, spec_.name);
    in.expect_text(kStateFormat);
    in.expect_text(spec_.name);
    const auto n = in.get<int64_t>();
    check(n == n_, "{}: a saved state of {} environments where {} are expected", spec_.name, n, n_);
    const auto limit = in.get<int64_t>();
    check(limit == spec_.time_limit,
          "{}: a saved state with a time limit of {} steps where {} are expected", spec_.name,
          limit, spec_.time_limit);
    const auto mode = in.get<ResetMode>();
    check(mode == mode_, "{}: a saved state of another reset mode", spec_.name);
    EpisodeClock clock;
    clock.seed = in.get<uint64_t>();
    clock.first_env = in.get<uint64_t>();
    const auto steps = in.get<int64_t>();
    const auto count = static_cast<size_t>(n_);
    clock.episode = in.get_all<uint32_t>(count);
    clock.draws = in.get_all<uint32_t>(count);
    clock.elapsed = in.get_all<int32_t>(count);
    auto still = in.get_all<uint8_t>(count);
    auto rewards = in.get_all<float>(rewards_.size());
    auto terminated = in.get_all<uint8_t>(count);
    auto truncated = in.get_all<uint8_t>(count);
    has_begun_ = false;
    dynamics_->load(in);
    in.expect_end();
    has_begun_ = true;
    clock_ = std::move(clock);
    steps_ = steps;
    still_ = std::move(still);
    rewards_ = std::move(rewards);
    terminated_ = std::move(terminated);
    truncated_ = std::move(truncated);
    any_still_ = std::find(still_.begin(), still_.end(), 1) != still_.end();
  }

  void get_states(double* out) const override {
    check_begun();
    check_has_state();
    for (int64_t i = 0; i < n_; ++i) {
      dynamics_->get_state(i, out + i * spec_.state_size);
    }
  }

  void set_states(const double* states) override {
    check_has_state();
    for (int64_t i = 0; i < n_ * spec_.state_size; ++i) {
      check(std::isfinite(states[i]), "{}: number {} of the state of environment {} is {}",
            spec_.name, i % spec_.state_size, i / spec_.state_size, states[i]);
    }
    forget_episodes();
    for (int64_t i = 0; i < n_; ++i) {
      try {
        dynamics_->set_state(i, states + i * spec_.state_size);
      } catch (const Error& error) {
        throw Error(fmt::format("{}: environment {}: {}", spec_.name, i, error.what()));
      }
    }
    has_begun_ = true;
  }

  Image picture(int64_t i) const override {
    check_begun();
    check(i >= 0 && i < n_, "{}: a picture of environment {} of {}", spec_.name, i, n_);
    return dynamics_->picture(i);
  }

 private:
  void check_begun() const { check(has_begun_, "{}: reset() comes first", spec_.name); }
  void check_has_state() const {
    check(spec_.state_size > 0, "{}: its states are no lists of numbers", spec_.name);
  }

  void forget_episodes() {
    steps_ = 0;
    std::fill(clock_.draws.begin(), clock_.draws.end(), 0);
    std::fill(clock_.elapsed.begin(), clock_.elapsed.end(), 0);
    std::fill(still_.begin(), still_.end(), 0);
    any_still_ = false;
  }

  bool is_still(int64_t i) const { return still_[static_cast<size_t>(i)] != 0; }

  [[noreturn]] void refuse_action(int64_t i, const std::string& what) const {
    fail("{}: {} of environment {} at step {}: expected {}", spec_.name, what, i, steps_,
         to_string(spec_.action));
  }

  void check_actions(const Actions& actions) {
    const int64_t agents = spec_.agents;
    if (spec_.action.is_discrete()) {
      check(actions.discrete != nullptr, "{}: step() without discrete actions", spec_.name);
      if (spec_.masks) {
        check_legal(actions.discrete);
      } else if (!lane_loops().are_below(actions.discrete, n_ * agents, spec_.action.n)) {
        for (int64_t at = 0; at < n_ * agents; ++at) {
          const int64_t action = actions.discrete[at];
          if (!is_still(at / agents) && (action < 0 || action >= spec_.action.n)) {
            refuse_action(at / agents, fmt::format("action {}", action));
          }
        }
      }
      return;
    }
    check(actions.box != nullptr, "{}: step() without actions of a box", spec_.name);
    const int64_t size = spec_.action.size();
    for (int64_t at = 0; at < n_ * agents * size; ++at) {
      const double value = actions.box[at];
      const auto k = static_cast<size_t>(at % size);
      if (!(value >= spec_.action.low[k] && value <= spec_.action.high[k] &&
            std::isfinite(value)) &&
          !is_still(at / (agents * size))) {
        refuse_action(at / (agents * size), fmt::format("action {}", value));
      }
    }
  }

  void check_legal(const int64_t* actions) {
    for (int64_t i = 0; i < n_; ++i) {
      if (is_still(i)) {
        continue;
      }
      dynamics_->mask(i, legal_.data());
      for (int64_t agent = 0; agent < spec_.agents; ++agent) {
        if (spec_.turns && agent != dynamics_->to_move(i)) {
          continue;
        }
        const int64_t action = actions[i * spec_.agents + agent];
        if (action < 0 || action >= spec_.action.n) {
          refuse_action(i, fmt::format("action {}", action));
        }
        if (legal_[static_cast<size_t>(agent * spec_.action.n + action)] == 0) {
          fail("{}: action {} of agent {} in environment {} at step {} is not legal", spec_.name,
               action, agent, i, steps_);
        }
      }
    }
  }

  void check_observations(const float* rows, int64_t first, int64_t count) const {
    if (dynamics_->is_trusted() || lane_loops().are_finite(rows, count * row_)) {
      return;
    }
    const auto is_bad = [](float x) { return !std::isfinite(x); };
    const float* bad = std::find_if(rows, rows + count * row_, is_bad);
    const int64_t at = bad - rows;
    fail("{}: number {} of the observation of environment {} is {} after step {}", spec_.name,
         at % row_, first + at / row_, *bad, steps_);
  }

  void check_rewards() const {
    if (dynamics_->is_trusted()) {
      return;
    }
    for (size_t i = 0; i < rewards_.size(); ++i) {
      const auto env = static_cast<int64_t>(i) / spec_.agents;
      check(std::isfinite(rewards_[i]) || is_still(env),
            "{}: the reward of environment {} is {} at step {}", spec_.name, env, rewards_[i],
            steps_);
    }
  }

  template <class T>
  void copy(const std::vector<T>& from, T* to) const {
    if (to != nullptr) {
      std::copy(from.begin(), from.end(), to);
    }
  }

  // Rows of environments that took no action: the last one again, or of the first of a new episode.
  void settle_still() {
    for (int64_t i = 0; i < n_; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!is_still(i)) {
        continue;
      }
      clock_.elapsed[at] = kept_elapsed_[at];
      const bool repeats = mode_ == ResetMode::kDisabled;
      terminated_[at] = repeats ? kept_terminated_[at] : 0;
      truncated_[at] = repeats ? kept_truncated_[at] : 0;
      for (auto r = at * static_cast<size_t>(spec_.agents);
           r < (at + 1) * static_cast<size_t>(spec_.agents); ++r) {
        rewards_[r] = repeats ? kept_rewards_[r] : 0;
      }
      if (!repeats) {
        begin_next(i);
      }
    }
  }

  void begin_next(int64_t i) {
    const auto at = static_cast<size_t>(i);
    clock_.episode[at] += 1;
    clock_.draws[at] = 0;
    clock_.elapsed[at] = 0;
    dynamics_->begin(i, clock_);
  }

  // Of eight environments.
  bool none_ends_from(int64_t i) const {
    uint64_t terminated, truncated;
    std::memcpy(&terminated, terminated_.data() + i, 8);
    std::memcpy(&truncated, truncated_.data() + i, 8);
    return (terminated | truncated) == 0;
  }

  void settle_ends(const StepBuffers& out) {
    any_still_ = false;
    for (int64_t i = 0; i < n_; ++i) {
      if (mode_ == ResetMode::kSameStep && i % 8 == 0 && i + 8 <= n_ && none_ends_from(i)) {
        i += 7;
        continue;
      }
      const auto at = static_cast<size_t>(i);
      const bool ended = (terminated_[at] | truncated_[at]) != 0;
      still_[at] = ended && mode_ != ResetMode::kSameStep ? 1 : 0;
      any_still_ = any_still_ || still_[at] != 0;
      if (!ended) {
        continue;
      }
      float* row = out.observations == nullptr ? last_row_.data() : out.observations + i * row_;
      if (out.observations == nullptr) {
        dynamics_->observe_one(i, row);
      }
      if (out.final_observations != nullptr) {
        std::copy_n(row, row_, out.final_observations + i * row_);
      }
      if (mode_ == ResetMode::kSameStep) {
        begin_next(i);
        if (out.observations != nullptr) {
          dynamics_->observe_one(i, row);
          check_observations(row, i, 1);
        }
      }
    }
  }

  std::unique_ptr<Dynamics> dynamics_;
  EnvSpec spec_;
  ResetMode mode_;
  int64_t n_;
  int64_t row_;  // numbers of one environment's observations
  bool has_begun_ = false;
  int64_t steps_ = 0;  // since reset() or set_states()
  EpisodeClock clock_;
  std::vector<uint8_t> still_;  // [n], takes no action at the next step
  bool any_still_ = false;
  std::vector<float> rewards_;                   // [n, A], of the last step
  std::vector<uint8_t> terminated_, truncated_;  // [n]
  std::vector<float> kept_rewards_;
  std::vector<uint8_t> kept_terminated_, kept_truncated_;
  std::vector<int32_t> kept_elapsed_;
  std::vector<float> last_row_;
  std::vector<uint8_t> legal_;
};

}  // namespace

std::unique_ptr<VectorEnv> make_episodes(std::unique_ptr<Dynamics> dynamics, ResetMode mode,
                                         int64_t time_limit) {
  check(time_limit >= 0 && time_limit <= std::numeric_limits<int32_t>::max(),
        "{}: a time limit of {} steps", dynamics->spec().name, time_limit);
  return std::make_unique<EpisodeEnv>(std::move(dynamics), mode, time_limit);
}

int64_t time_limit_of(const EnvConfig& config, const EnvSpec& spec) {
  return config.time_limit ? config.time_limit->value_or(spec.time_limit) : 0;
}

}  // namespace mstrain::reinforcement
