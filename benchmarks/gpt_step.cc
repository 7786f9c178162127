// One process of the race against PyTorch (gpt_vs_pytorch.py): trains a GPT of a given size on random tokens; or a Llama,
// where HEADS is HEADS/KEY_HEADS.
//
//   gpt_step LAYERS HEADS WIDTH SEQ BATCH VOCAB [level] [threads] [recompute] [loss_chunks]
//
// Prints one JSON line after the first step; then, for every line "N" on standard input, runs N steps and prints their
// seconds and the last loss; for the line "products", times the matrix products of its own plan in oneDNN alone. Ends with
// its input.
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "benchmarks/product_rate.h"
#include "benchmarks/run_main.h"
#include "core/base/rng.h"
#include "core/exec/execute.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/optim/optimizer.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/clip.h"
#include "core/transform/grad.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"

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
  Tensor tokens, targets;
  template <class V>
  void fields(V& v) {
    v("tokens", tokens);
    v("targets", targets);
  }
};

// All but the vocabulary, the positions and how it is recomputed has its default.
template <class Model, class Config>
std::unique_ptr<const CausalModel> make(Config config, std::span<char*> arguments,
                                        Recompute recompute) {
  config.num_layers = std::atoll(arguments[1]);
  config.num_attention_heads = std::atoll(arguments[2]);
  config.hidden_size = std::atoll(arguments[3]);
  config.max_position_embeddings = std::atoll(arguments[4]);
  config.vocab_size = std::atoll(arguments[6]);
  return std::make_unique<Model>(config, recompute);
}

std::unique_ptr<const CausalModel> make_model(std::span<char*> arguments, Recompute recompute) {
  const std::string_view heads = arguments[2];
  const size_t slash = heads.find('/');
  if (slash == heads.npos) {
    return make<gpt::Gpt>(gpt::GptConfig(), arguments, recompute);
  }
  llama::LlamaConfig config;
  config.num_key_value_heads = std::atoll(heads.substr(slash + 1).data());
  return make<llama::Llama>(config, arguments, recompute);
}

// The program that was compiled last.
const Program* g_compiled = nullptr;

std::unique_ptr<Program> compile_and_remember(const Graph& graph, const CompileOptions& options) {
  auto program = compile_program(graph, options);
  g_compiled = program.get();
  return program;
}

int run(int argc, char** argv) {
  const auto start = Clock::now();
  check(argc >= 7,
        "usage: gpt_step LAYERS HEADS WIDTH SEQ BATCH VOCAB [level] [threads] "
        "[none | selective | full] [loss_chunks]");
  const auto number = [&](int i, int64_t otherwise) {
    return i < argc ? std::atoll(argv[i]) : otherwise;
  };
  const int64_t seq = number(4, 0);
  const int64_t batch_size = number(5, 0);
  Context context;
  context.training = true;
  context.threads = static_cast<int>(number(8, 0));
  const ContextScope scope(context);
  install_compiler(compile_and_remember);

  const std::string_view word = argc > 9 ? argv[9] : "none";
  check(word == "none" || word == "selective" || word == "full",
        "recompute '{}': expected none, selective or full", word);
  const Recompute recompute = word == "full"        ? Recompute::kFull
                              : word == "selective" ? Recompute::kSelective
                                                    : Recompute::kNone;
  const auto model = make_model(std::span(argv, static_cast<size_t>(argc)), recompute);
  const auto specs = model->specs();
  const Optimizer optimizer({.lr = 3e-4, .weight_decay = 0.1}, specs);
  State state{init_params(specs, 1234), {}};
  state.optimizer = optimizer.init(state.params);
  context.allocator->trim();  // what drawing the weights took

  const auto step = jit(
      [&](const State& s, const Batch& b, const Tensor& lr) {
        const auto [loss, grads] = value_and_grad(
            [&](const Params& p) { return model->loss(p, b.tokens, b.targets); })(s.params);
        const PartScope update(StepPart::kUpdate);
        const Tensor norm = global_norm(grads);
        const Tensor scale = clip_factor(norm, 1);
        auto [params, opt] = optimizer.update(s.params, grads, s.optimizer, lr, scale);
        return std::tuple(State{params, opt}, loss, norm);
      },
      {.donate = {0},
       .level = static_cast<int>(number(7, 2)),
       .name = "step",
       .loss_chunks = number(10, kAutoChunks)});

  Rng rng(99);
  std::vector<int32_t> ids(static_cast<size_t>(batch_size * (seq + 1)));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(model->vocab_size())));
  }
  const Tensor all = tensor<int32_t>(ids, {batch_size, seq + 1});
  const Batch batch{dense(slice(all, 1, 0, seq)), dense(slice(all, 1, 1, seq + 1))};
  const Tensor lr = scalar(3e-4);

  double loss = 0;
  const auto run_steps = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      auto [next, value, norm] = step(std::move(state), batch, lr);
      state = std::move(next);
      loss = item(value);
    }
  };
  run_steps(1);
  std::printf("{\"first_step_seconds\": %.4f, \"loss\": %.5f}\n", seconds_since(start), loss);
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    if (std::string_view(line).starts_with("products")) {
      const Plan& plan = plan_of(*g_compiled);
      const ProductRate rate = product_rate(plan, context.num_threads());
      malloc_trim(0);  // what oneDNN took for that is no part of the peak of steps
      std::printf(
          "{\"product_flops\": %.6g, \"product_seconds\": %.6f, \"attention_flops\": %.6g, "
          "\"shapes\": %d}\n",
          rate.flops, rate.seconds, attention_flops(plan), rate.shapes);
      std::fflush(stdout);
      continue;
    }
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
