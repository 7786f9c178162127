// What a step costs besides its arithmetic: a network of twenty kernels on four rows, whose products and softmaxes take
// next to no time. Steps a second, and for comparison the time that its kernels report of themselves. And what a policy costs that decides
// for eight environments: two layers of 64 for each of actions and value, on 4 numbers each.
//
//   bench_small_steps [--benchmark_repetitions=N …]
#include <benchmark/benchmark.h>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/random.h"
#include "core/ops/softmax.h"
#include "core/tensor/jit.h"

namespace mstrain {
namespace {

constexpr int kLayers = 10;
constexpr int64_t kWidth = 16, kRows = 4;

Tensor network(const std::vector<Tensor>& weights, Tensor x) {
  for (const Tensor& weight : weights) {
    x = softmax(matmul(x, weight));
  }
  return x;
}

struct Inputs {
  std::vector<Tensor> weights;
  Tensor x;
  Inputs() : x(normal(rng_key(1), {kRows, kWidth}, {.site = "x"})) {
    for (int i = 0; i < kLayers; ++i) {
      weights.push_back(normal(rng_key(2 + i), {kWidth, kWidth}, {.site = "weight"}));
    }
  }
};

Tensor tower(const std::vector<Tensor>& weights, Tensor x) {
  for (size_t i = 0; i + 2 < weights.size(); i += 2) {
    x = tanh(matmul(x, weights[i]) + weights[i + 1]);
  }
  return matmul(x, weights[weights.size() - 2]) + weights.back();
}

void policy(benchmark::State& state) {
  const Context context{.threads = 1};
  const ContextScope scope(context);
  const auto drawn = [](const Shape& shape) {
    return normal(rng_key(1), shape, {.site = "policy"});
  };
  const auto weights = [&](int64_t results) {
    return std::vector<Tensor>{drawn({4, 64}), drawn({64}),          drawn({64, 64}),
                               drawn({64}),    drawn({64, results}), drawn({results})};
  };
  const std::vector<Tensor> actor = weights(2), critic = weights(1);
  const Tensor x = drawn({8, 4});
  const auto f =
      jit([](const std::vector<Tensor>& actor, const std::vector<Tensor>& critic, const Tensor& x) {
        return std::pair(log_softmax(tower(actor, x)), tower(critic, x));
      });
  for (auto _ : state) {
    benchmark::DoNotOptimize(f(actor, critic, x));
  }
}
BENCHMARK(policy)->Unit(benchmark::kMicrosecond);

// The call of the jitted function, as users make it.
void call(benchmark::State& state) {
  const Context context{.threads = static_cast<int>(state.range(0))};
  const ContextScope scope(context);
  const Inputs inputs;
  const auto f = jit(network);
  f(inputs.weights, inputs.x);
  for (auto _ : state) {
    benchmark::DoNotOptimize(f(inputs.weights, inputs.x));
  }
  state.counters["kernels"] = 2 * kLayers;
}
BENCHMARK(call)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

// The compiled program alone.
void run(benchmark::State& state) {
  const Context context{.threads = static_cast<int>(state.range(0))};
  const ContextScope scope(context);
  const Inputs inputs;
  Types types;
  Tensors given;
  for (const Tensor& weight : inputs.weights) {
    types.push_back(weight.type());
    given.push_back(weight);
  }
  types.push_back(inputs.x.type());
  given.push_back(inputs.x);
  Tensors captures;
  const GraphPtr graph = trace_program(
      types,
      [](std::span<const Tensor> in) {
        return Tensors{network({in.begin(), in.end() - 1}, in.back())};
      },
      &captures);
  const auto program = compile(*graph);
  for (auto _ : state) {
    benchmark::DoNotOptimize(program->run(given));
  }
  // What the kernels take by themselves, their share of the clock included.
  std::vector<KernelTime> times;
  program->profile(&times);
  program->run(given);
  program->profile(nullptr);
  double inside = 0;
  for (const KernelTime& time : times) {
    inside += static_cast<double>(time.end - time.begin);
  }
  state.counters["kernels"] = static_cast<double>(times.size());
  state.counters["inside_us"] = inside * 1e-3;
}
BENCHMARK(run)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace mstrain

BENCHMARK_MAIN();
