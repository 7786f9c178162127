// One process of the race against PyTorch (gpt_vs_pytorch.py): trains a GPT of a given size on random tokens; or a Llama,
// where HEADS is HEADS/KEY_HEADS.
//
//   gpt_step LAYERS HEADS WIDTH SEQ BATCH VOCAB [level] [threads] [recompute] [loss_chunks]
//
// Talks as train_race.h says; for the line "products", times the matrix products of its own plan in oneDNN alone.
#include <malloc.h>

#include <memory>
#include <span>
#include <string>

#include "benchmarks/product_rate.h"
#include "benchmarks/run_main.h"
#include "benchmarks/train_race.h"
#include "core/base/rng.h"
#include "core/exec/execute.h"
#include "core/ops/shape.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"

namespace mstrain {
namespace {

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
  Rng rng(99);
  std::vector<int32_t> ids(static_cast<size_t>(batch_size * (seq + 1)));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(model->vocab_size())));
  }
  const Tensor all = tensor<int32_t>(ids, {batch_size, seq + 1});
  const auto products = [&](std::string_view) {
    const Plan& plan = plan_of(*g_compiled);
    const ProductRate rate = product_rate(plan, context.num_threads());
    malloc_trim(0);  // what oneDNN took for that is no part of the peak of steps
    std::printf(
        "{\"product_flops\": %.6g, \"product_seconds\": %.6f, \"attention_flops\": %.6g, "
        "\"shapes\": %d}\n",
        rate.flops, rate.seconds, attention_flops(plan), rate.shapes);
  };
  race_training(
      start, context, model->specs(),
      [&](const Params& p, const RaceBatch& b) { return model->loss(p, b.inputs, b.targets); },
      {dense(slice(all, 1, 0, seq)), dense(slice(all, 1, 1, seq + 1))},
      {.level = static_cast<int>(number(7, 2)), .loss_chunks = number(10, kAutoChunks)}, products);
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
