// Steps of environments with random actions, for environments_vs_gymnasium.py: environment_steps NAME ENVIRONMENTS. For each line of its
// input, a number of steps, one line of JSON with the seconds that a step of all environments took.
#include <fmt/core.h>

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "suites/reinforcement/env/environment.h"
#include "suites/reinforcement/env/suite.h"

namespace {

using namespace mstrain::reinforcement;

constexpr size_t kActions = 64;  // lists of actions that take turns

void serve(const std::string& name, int64_t n) {
  add_environment_suite();
  EnvConfig config;
  config.name = name;
  const auto env = make_env(config, n);
  const Space& space = env->spec().action;
  mstrain::Rng rng(1);
  std::vector<std::vector<int64_t>> discrete(kActions);
  std::vector<std::vector<double>> box(kActions);
  for (size_t k = 0; k < kActions; ++k) {
    for (int64_t i = 0; i < n * space.size(); ++i) {
      if (space.is_discrete()) {
        discrete[k].push_back(rng.between(0, space.n - 1));
      } else {
        box[k].push_back(rng.uniform(space.low[0], space.high[0]));
      }
    }
  }
  const auto numbers = static_cast<size_t>(n * env->spec().observation.size());
  std::vector<float> observations(numbers), finals(numbers), rewards(static_cast<size_t>(n));
  std::vector<uint8_t> terminated(static_cast<size_t>(n)), truncated(static_cast<size_t>(n));
  env->reset(1, 0);
  fmt::print("{{\"ready\": true}}\n");
  std::fflush(stdout);
  int64_t steps = 0;
  size_t at = 0;
  while (std::cin >> steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t t = 0; t < steps; ++t, at = (at + 1) % kActions) {
      env->step({discrete[at].data(), box[at].data()},
                {observations.data(), rewards.data(), terminated.data(), truncated.data(),
                 finals.data()});
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fmt::print("{{\"step_seconds\": {}}}\n", seconds.count() / static_cast<double>(steps));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: environment_steps NAME ENVIRONMENTS\n");
    return 2;
  }
  try {
    serve(argv[1], std::stoll(argv[2]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
