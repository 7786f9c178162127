// What contenders in races of training steps share: AdamW on random weights, and their talk with the script that times them.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "core/ops/build.h"
#include "core/optim/optimizer.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/clip.h"
#include "core/transform/grad.h"

namespace mstrain {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct RaceState {
  Params params;
  OptimizerState optimizer;
  template <class V>
  void fields(V& v) {
    v("params", params);
    v("optimizer", optimizer);
  }
};

struct RaceBatch {
  Tensor inputs, targets;
  template <class V>
  void fields(V& v) {
    v("inputs", inputs);
    v("targets", targets);
  }
};

// Trains parameters of `specs` on one batch; loss(params, batch) is a scalar. Prints a JSON line after the first step, with
// the seconds since `start`; then, for every line "N" on standard input, runs N steps and prints their seconds and the last
// loss. A line that is no number goes to `asked`. Ends with its input.
template <class Loss>
void race_training(Clock::time_point start, Context& context, const std::vector<ParamSpec>& specs,
                   const Loss& loss, const RaceBatch& batch, JitOptions options,
                   const std::function<void(std::string_view)>& asked = {}) {
  const Optimizer optimizer({.lr = 3e-4, .weight_decay = 0.1}, specs);
  RaceState state{init_params(specs, 1234), {}};
  state.optimizer = optimizer.init(state.params);
  context.allocator->trim();  // what drawing the weights took

  options.donate = {0};
  options.name = "step";
  const auto step = jit(
      [&](const RaceState& s, const RaceBatch& b, const Tensor& lr) {
        const auto [value, grads] =
            value_and_grad([&](const Params& p) { return loss(p, b); })(s.params);
        const PartScope update(StepPart::kUpdate);
        const Tensor norm = global_norm(grads);
        auto [params, opt] =
            optimizer.update(s.params, grads, s.optimizer, lr, clip_factor(norm, 1));
        return std::tuple(RaceState{params, opt}, value, norm);
      },
      options);

  const Tensor lr = scalar(3e-4);
  double last = 0;
  const auto run_steps = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      auto [next, value, norm] = step(std::move(state), batch, lr);
      state = std::move(next);
      last = item(value);
    }
  };
  run_steps(1);
  std::printf("{\"first_step_seconds\": %.4f, \"loss\": %.5f}\n", seconds_since(start), last);
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    const int64_t count = std::atoll(line);
    if (count == 0 && asked) {
      asked(line);
    } else {
      const auto begin = Clock::now();
      run_steps(count);
      std::printf("{\"step_seconds\": %.6f, \"loss\": %.5f}\n",
                  seconds_since(begin) / static_cast<double>(count), last);
    }
    std::fflush(stdout);
  }
}

}  // namespace mstrain
