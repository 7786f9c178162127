// One process of the race against PEFT (lora_vs_peft.py): trains what a configuration says, from drawn weights, on random
// tokens.
//
//   lora_step CONFIG.yaml [key.path=value ...]
//
// Prints one JSON line after the first step; then, for every line "N" on standard input, runs N steps and prints their
// seconds and the last loss. Ends with its input.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "benchmarks/run_main.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/train/session.h"
#include "suites/all.h"
#include "suites/run/model_run.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Tensors random_ids(const Types& types, int64_t ids) {
  Rng rng(99);
  Tensors batch;
  for (const TensorType& type : types) {
    std::vector<int32_t> values(static_cast<size_t>(type.elements()));
    for (int32_t& value : values) {
      value = static_cast<int32_t>(rng.below(static_cast<uint64_t>(ids)));
    }
    batch.push_back(tensor<int32_t>(values, type.shape));
  }
  return batch;
}

int run(int argc, char** argv) {
  const auto start = Clock::now();
  check(argc >= 2, "usage: lora_step CONFIG.yaml [key.path=value ...]");
  add_all_models();
  const std::vector<std::string> overrides(argv + 2, argv + argc);
  const std::unique_ptr<ModelRun> given = read_run(load_config(argv[1], overrides));
  const TrainConfig& config = given->train;
  const TrainTask task = given->adapted_task();
  const Context context = make_context(config);
  const ContextScope scope(context);
  const StepProgram program(task, config, config.batch.micro.value_or(config.batch.global),
                            context);
  TrainState state = program.first_state(init_params(task.parameters, 1));
  const Params frozen = frozen_weights(task);
  context.allocator->trim();  // what drawing the weights took
  const Tensors batch = random_ids(task.batch_types(config.batch.global), *given->network()->ids());

  double loss = 0;
  int64_t step = 0;
  const auto run_steps = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      StepResult result = program.run(
          std::move(state), batch, {.lr = config.optimizer.lr, .seed = 1, .step = step++}, frozen);
      state = std::move(result.state);
      loss = item(result.loss);
    }
  };
  run_steps(1);
  std::printf("{\"first_step_seconds\": %.4f, \"loss\": %.5f}\n", seconds_since(start), loss);
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    const int64_t count = std::atoll(line);
    const auto begin = Clock::now();
    run_steps(count);
    std::printf("{\"step_seconds\": %.6f, \"loss\": %.5f}\n",
                seconds_since(begin) / static_cast<double>(count), loss);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
