// The mstrain command with one environment more.
#include "launcher/program.h"
#include "suites/all.h"
#include "suites/reinforcement/env/one_environment.h"

using mstrain::reinforcement::EnvRandom;
using mstrain::reinforcement::EnvSpec;
using mstrain::reinforcement::Space;

// A corridor with its goal at the right end. Actions: left, right. Seen: how far one has come.
struct Corridor {
  static constexpr int64_t kLength = 7;
  int64_t place = 0;

  static EnvSpec spec() {
    return {.name = "corridor",
            .about = "a corridor with its goal at the right end",
            .observation = Space::box({0}, {1}),
            .action = Space::discrete(2),
            .state_size = 1,
            .time_limit = 50,
            .reward_threshold = 0.4};
  }
  void begin(EnvRandom& random) { place = random.below(2); }
  bool step(std::span<const int64_t> actions, EnvRandom&, std::span<float> rewards) {
    place += actions[0] == 1 ? 1 : place > 0 ? -1 : 0;
    const bool is_there = place == kLength - 1;
    rewards[0] = is_there ? 1.0F : -0.1F;
    return is_there;
  }
  void observe(std::span<float> out) const { out[0] = static_cast<float>(place) / (kLength - 1); }
  void get_state(std::span<double> out) const { out[0] = static_cast<double>(place); }
  void set_state(std::span<const double> state) {
    place = mstrain::reinforcement::whole_state(state, 0, 0, kLength - 1);
  }
};

int main(int argc, char** argv) {
  mstrain::add_all_models();
  mstrain::reinforcement::add_environment<Corridor>();
  return mstrain::launcher::run_program(argc, argv);
}
