// One process of the race against PyTorch (vit_vs_pytorch.py): trains a ViT of a given size on random images.
//
//   vit_step LAYERS HEADS WIDTH SIZE PATCH BATCH CLASSES [threads]
//
// Speaks as gpt_step does: a JSON line after the first step; then, for every line "N" on standard input, N steps and a line
// with their seconds.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "benchmarks/run_main.h"
#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "core/optim/optimizer.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/clip.h"
#include "core/transform/grad.h"
#include "suites/transformer/vit/model.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct State {
  Params params;
  OptimizerState optimizer;
  template <class V>
  void fields(V& v) {
    v("params", params);
    v("optimizer", optimizer);
  }
};

struct Batch {
  Tensor pixels, labels;
  template <class V>
  void fields(V& v) {
    v("pixels", pixels);
    v("labels", labels);
  }
};

int run(int argc, char** argv) {
  const auto start = Clock::now();
  check(argc >= 8, "usage: vit_step LAYERS HEADS WIDTH SIZE PATCH BATCH CLASSES [threads]");
  const auto number = [&](int i) { return i < argc ? std::atoll(argv[i]) : 0; };
  vit::VitConfig config;
  config.num_layers = number(1);
  config.num_attention_heads = number(2);
  config.hidden_size = number(3);
  config.image_size = number(4);
  config.patch_size = number(5);
  config.num_classes = number(7);
  const int64_t rows = number(6);
  Context context;
  context.training = true;
  context.threads = static_cast<int>(number(8));
  const ContextScope scope(context);

  const vit::Vit model(config);
  const auto specs = model.specs();
  const Optimizer optimizer({.lr = 3e-4, .weight_decay = 0.1}, specs);
  State state{init_params(specs, 1234), {}};
  state.optimizer = optimizer.init(state.params);
  context.allocator->trim();  // what drawing the weights took

  const auto step = jit(
      [&](const State& s, const Batch& b, const Tensor& lr) {
        const auto [loss, grads] = value_and_grad([&](const Params& p) {
          const CrossEntropySums sums = model.losses(p, b.pixels, {b.labels});
          return sums.loss / cast(sums.count, sums.loss.dtype());
        })(s.params);
        const PartScope update(StepPart::kUpdate);
        const Tensor scale = clip_factor(global_norm(grads), 1);
        auto [params, opt] = optimizer.update(s.params, grads, s.optimizer, lr, scale);
        return std::pair(State{params, opt}, loss);
      },
      {.donate = {0}, .name = "step"});

  Rng rng(99);
  const Shape shape{rows, config.num_channels, config.image_size, config.image_size};
  std::vector<float> pixels(static_cast<size_t>(shape.elements()));
  for (float& pixel : pixels) {
    pixel = static_cast<float>(rng.uniform(-1, 1));
  }
  std::vector<int32_t> labels(static_cast<size_t>(rows));
  for (int32_t& label : labels) {
    label = static_cast<int32_t>(rng.below(static_cast<uint64_t>(*config.num_classes.value)));
  }
  const Batch batch{tensor<float>(pixels, shape), tensor<int32_t>(labels, {rows})};
  const Tensor lr = scalar(3e-4);

  double loss = 0;
  const auto run_steps = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      auto [next, value] = step(std::move(state), batch, lr);
      state = std::move(next);
      loss = item(value);
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
