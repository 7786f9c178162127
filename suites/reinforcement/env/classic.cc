#include "suites/reinforcement/env/classic.h"

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include "core/base/isa.h"
#include "suites/reinforcement/env/classic_pictures.h"
#include "suites/reinforcement/env/episodes.h"
#include "suites/reinforcement/env/lanes/acrobot.h"
#include "suites/reinforcement/env/lanes/cartpole.h"
#include "suites/reinforcement/env/lanes/loops.h"
#include "suites/reinforcement/env/lanes/mountain_car.h"
#include "suites/reinforcement/env/lanes/pendulum.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// What each adds to its physics.
struct CartPoleKind {
  using Physics = CartPole;
  static constexpr auto kLoops = &LaneLoops::cartpole;
  static constexpr auto kDraw = &draw_cartpole;
  static EnvSpec spec() {
    return {.name = "cartpole",
            .about = "a pole on a cart that is pushed left or right (Gymnasium's CartPole-v1)",
            .observation = Space::box({-4.8, -kUnbounded, -2 * CartPole::kFall, -kUnbounded},
                                      {4.8, kUnbounded, 2 * CartPole::kFall, kUnbounded}),
            .action = Space::discrete(2),
            .state_size = 4,
            .time_limit = 500,
            .reward_threshold = 475};
  }
  static void begin(EnvRandom& random, double* state) {
    for (int k = 0; k < 4; ++k) {
      state[k] = random.uniform(-0.05, 0.05);
    }
  }
};

struct AcrobotKind {
  using Physics = Acrobot;
  static constexpr auto kLoops = &LaneLoops::acrobot;
  static constexpr auto kDraw = &draw_acrobot;
  static EnvSpec spec() {
    const std::vector<double> high = {1, 1, 1, 1, 4 * kPi, 9 * kPi};
    std::vector<double> low;
    for (double bound : high) {
      low.push_back(-bound);
    }
    return {.name = "acrobot",
            .about = "two links to be swung up by a torque between them (Gymnasium's Acrobot-v1)",
            .observation = Space::box(low, high),
            .action = Space::discrete(3),
            .state_size = 4,
            .time_limit = 500,
            .reward_threshold = -100};
  }
  static void begin(EnvRandom& random, double* state) {
    for (int k = 0; k < 4; ++k) {
      state[k] = static_cast<float>(random.uniform(-0.1, 0.1));
    }
  }
};

struct MountainCarKind {
  using Physics = MountainCar;
  static constexpr auto kLoops = &LaneLoops::mountain_car;
  static constexpr auto kDraw = &draw_mountain_car;
  static EnvSpec spec() {
    return {.name = "mountain_car",
            .about = "a car that must swing up to leave a valley (Gymnasium's MountainCar-v0)",
            .observation =
                Space::box({kMountainLeft, -kMountainSpeed}, {kMountainRight, kMountainSpeed}),
            .action = Space::discrete(3),
            .state_size = 2,
            .time_limit = 200,
            .reward_threshold = -110};
  }
  static void begin(EnvRandom& random, double* state) {
    state[0] = random.uniform(-0.6, -0.4);
    state[1] = 0;
  }
};

struct MountainCarContinuousKind : MountainCarKind {
  using Physics = MountainCarContinuous;
  static constexpr auto kLoops = &LaneLoops::mountain_car_continuous;
  static constexpr auto kDraw = &draw_mountain_car_continuous;
  static EnvSpec spec() {
    EnvSpec spec = MountainCarKind::spec();
    spec.name = "mountain_car_continuous";
    spec.about = "the same with a force that costs (Gymnasium's MountainCarContinuous-v0)";
    spec.action = Space::box({-1}, {1});
    spec.time_limit = 999;
    spec.reward_threshold = 90;
    return spec;
  }
};

struct PendulumKind {
  using Physics = Pendulum;
  static constexpr auto kLoops = &LaneLoops::pendulum;
  static constexpr auto kDraw = &draw_pendulum;
  static EnvSpec spec() {
    return {.name = "pendulum",
            .about = "a pendulum to be swung up and held (Gymnasium's Pendulum-v1)",
            .observation =
                Space::box({-1, -1, -Pendulum::kMostVelocity}, {1, 1, Pendulum::kMostVelocity}),
            .action = Space::box({-Pendulum::kMostTorque}, {Pendulum::kMostTorque}),
            .state_size = 2,
            .time_limit = 200,
            .endless = true};
  }
  static void begin(EnvRandom& random, double* state) {
    state[0] = random.uniform(-kPi, kPi);
    state[1] = random.uniform(-1, 1);
  }
};

template <class K>
class LaneDynamics final : public Dynamics {
  using P = typename K::Physics;

 public:
  explicit LaneDynamics(int64_t n) : n_(n), padded_((n + kPadding - 1) / kPadding * kPadding) {
    numbers_.resize(static_cast<size_t>(padded_ * P::kState + kPadding));
    auto at = reinterpret_cast<uintptr_t>(numbers_.data());
    at = (at + kPadding * sizeof(double) - 1) / (kPadding * sizeof(double));
    auto* first = reinterpret_cast<double*>(at * kPadding * sizeof(double));
    for (int k = 0; k < P::kState; ++k) {
      state_[k] = first + k * padded_;
    }
  }

  const EnvSpec& spec() const override {
    static const EnvSpec kSpec = K::spec();
    return kSpec;
  }
  int64_t size() const override { return n_; }
  bool is_trusted() const override { return true; }

  void begin(int64_t i, EpisodeClock& clock) override {
    double state[P::kState];
    EnvRandom random = clock.random(i);
    K::begin(random, state);
    for (int k = 0; k < P::kState; ++k) {
      state_[k][i] = state[k];
    }
  }

  void step(const Actions& actions, const uint8_t* still, EpisodeClock& clock, float* rewards,
            uint8_t* terminated) override {
    apart_.clear();
    if (still != nullptr || is_beyond_) {
      set_apart(still);
    }
    is_beyond_ = loops().step({.n = n_,
                               .state = state_,
                               .discrete = actions.discrete,
                               .box = actions.box,
                               .elapsed = clock.elapsed.data(),
                               .rewards = rewards,
                               .terminated = terminated});
    for (const Apart& each : apart_) {
      put_back(each, actions, clock, rewards, terminated);
    }
  }

  void observe(float* out) const override {
    if (is_beyond_) {
      for (int64_t i = 0; i < n_; ++i) {
        observe_one(i, out + i * P::kObservation);
      }
      return;
    }
    loops().observe(state_, 0, n_, out);
  }
  void observe_one(int64_t i, float* out) const override {
    double state[P::kState];
    get_state(i, state);
    if (is_beyond(state)) {
      double seen[P::kObservation];
      P::template observe<OneLane>(state, seen);
      std::copy_n(seen, P::kObservation, out);
      return;
    }
    const int64_t first = i / kPadding * kPadding;
    float block[kPadding * P::kObservation];
    loops().observe(state_, first, kPadding, block);
    std::copy_n(block + (i - first) * P::kObservation, P::kObservation, out);
  }

  void get_state(int64_t i, double* out) const override {
    for (int k = 0; k < P::kState; ++k) {
      out[k] = state_[k][i];
    }
  }
  void set_state(int64_t i, const double* state) override {
    for (int k = 0; k < P::kState; ++k) {
      check(std::abs(state[k]) <= kMostGiven, "number {} of a state is {}: expected -1e8 … 1e8", k,
            state[k]);
      state_[k][i] = state[k];
    }
    is_beyond_ = is_beyond_ || is_beyond(state);
  }

  Image picture(int64_t i) const override {
    double state[P::kState];
    get_state(i, state);
    return K::kDraw(state);
  }

 private:
  static constexpr double kMostGiven = 1e8;  // angles are wrapped turn by turn

  // An environment that the loop shall not move: its state meanwhile.
  struct Apart {
    int64_t i;
    bool is_still;
    double state[P::kState];
  };

  static const PhysicsLoops& loops() { return lane_loops().*K::kLoops; }
  static bool is_beyond(const double* state) {
    return std::any_of(state, state + P::kState,
                       [](double x) { return !(std::abs(x) <= P::kMostState); });
  }

  void set_apart(const uint8_t* still) {
    for (int64_t i = 0; i < n_; ++i) {
      Apart each{.i = i, .is_still = still != nullptr && still[i] != 0};
      get_state(i, each.state);
      if (each.is_still || is_beyond(each.state)) {
        apart_.push_back(each);
        for (int k = 0; k < P::kState; ++k) {
          state_[k][i] = 0;
        }
      }
    }
  }

  void put_back(const Apart& each, const Actions& actions, const EpisodeClock& clock,
                float* rewards, uint8_t* terminated) {
    const int64_t i = each.i;
    PhysicsStep<OneLane, P> io;
    std::copy_n(each.state, P::kState, io.state);
    if (!each.is_still) {
      io.discrete = P::kDiscrete ? actions.discrete[i] : 0;
      io.box = P::kDiscrete ? 0 : actions.box[i];
      io.first = clock.elapsed[static_cast<size_t>(i)] == 0;
      P::template step<OneLane>(io);
      rewards[i] = static_cast<float>(io.reward);
      terminated[i] = io.terminated != 0;
    }
    for (int k = 0; k < P::kState; ++k) {
      state_[k][i] = io.state[k];
    }
    is_beyond_ = is_beyond_ || is_beyond(io.state);
  }

  int64_t n_, padded_;
  std::vector<double> numbers_;
  double* state_[P::kState];  // [padded_] each, aligned to kPadding numbers
  bool is_beyond_ = false;    // whether an environment may be where the loops do not hold
  std::vector<Apart> apart_;
};

template <class K>
void add() {
  add_environment(entry_of<LaneDynamics<K>>(K::spec()));
}

}  // namespace

const LaneLoops& lane_loops() {
#if defined(__x86_64__)
  static const LaneLoops& chosen = isa() >= Isa::kAvx512 ? avx512::kLoops : avx2::kLoops;
#else
  static const LaneLoops& chosen = baseline::kLoops;
#endif
  return chosen;
}

void add_classic_environments() {
  add<CartPoleKind>();
  add<AcrobotKind>();
  add<MountainCarKind>();
  add<MountainCarContinuousKind>();
  add<PendulumKind>();
}

}  // namespace mstrain::reinforcement
