// One contender of the race of ranks (ranks_vs_pytorch.py): trains a GPT of a given size on random tokens, on the ranks that
// mpirun started it as, or alone; the step is that of a run.
//
//   [mpirun -n N] ranks_step LAYERS HEADS WIDTH SEQ BATCH VOCAB [key=value ...]
//
// For every line N on standard input of the first rank each runs N steps, and the first prints their seconds and the last loss,
// as train_race.h does.
#include <unistd.h>

#include <cstdlib>

#include "benchmarks/run_main.h"
#include "benchmarks/train_race.h"
#include "core/base/rng.h"
#include "core/comm/mpi_process.h"
#include "core/train/rank_talk.h"
#include "core/train/session.h"
#include "core/train/step.h"
#include "suites/transformer/gpt/gpt_run.h"

namespace mstrain {
namespace {

gpt::GptRun make_run(std::span<char*> arguments) {
  YamlNode tree =
      parse_yaml(fmt::format("model: {{num_layers: {}, num_attention_heads: {}, hidden_size: {},\n"
                             "        max_position_embeddings: {}, vocab_size: {}}}\n"
                             "data: {{train: none, seq_length: {}}}\n"
                             "batch: {{global: {}}}\n"
                             "optimizer: {{lr: 3.0e-4, weight_decay: 0.1}}\n",
                             arguments[1], arguments[2], arguments[3], arguments[4], arguments[6],
                             arguments[4], arguments[5]),
                 "ranks_step");
  std::vector<std::string> overrides(arguments.begin() + 7, arguments.end());
  apply_overrides(tree, overrides);
  gpt::GptRun run;
  run.read(tree);
  return run;
}

// The same tokens in every step; each rank has samples of its own.
Tensors make_batch(int64_t rows, int64_t seq, int64_t vocab, int64_t rank) {
  Rng rng(99 + static_cast<uint64_t>(rank));
  std::vector<int32_t> inputs, targets;
  for (int64_t row = 0; row < rows; ++row) {
    auto last = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab)));
    for (int64_t i = 0; i < seq; ++i) {
      inputs.push_back(last);
      last = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab)));
      targets.push_back(last);
    }
  }
  return {tensor<int32_t>(inputs, {rows, seq}), tensor<int32_t>(targets, {rows, seq})};
}

void train_as_told(Clock::time_point start, const gpt::GptRun& run,
                   const std::shared_ptr<Ranks>& ranks, std::span<char*> arguments) {
  const TrainConfig& config = run.train;
  const Context context = make_context(config, ranks);
  const ContextScope scope(context);
  const TrainTask task = run.task();
  const int64_t shared = data_ranks(config.parallel, context);
  const int64_t rows = config.batch.global / shared;
  const StepProgram program(task, config, config.batch.micro.value_or(rows), context);
  TrainState state = program.first_state(init_params(task.parameters, 1234));
  const Tensors batch = make_batch(rows, std::atoll(arguments[4]), std::atoll(arguments[6]),
                                   ranks == nullptr ? 0 : ranks->rank());
  double loss = 0;
  int64_t step = 0;
  const auto run_steps = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      StepResult result =
          program.run(std::move(state), batch, {.lr = 3e-4, .seed = 1, .step = step++});
      state = std::move(result.state);
      loss = item(result.loss);
    }
  };
  const auto tell = [&](const char* what, double seconds) {
    if (is_first(ranks.get())) {
      std::printf("{\"%s\": %.6f, \"loss\": %.5f, \"peak_bytes\": %lld}\n", what, seconds, loss,
                  static_cast<long long>(program.program()->memory().arena +
                                         program.program()->memory().inputs));
      std::fflush(stdout);
    }
  };
  run_steps(1);
  tell("first_step_seconds", seconds_since(start));
  const auto asked = [&] {
    char line[64] = "";
    const bool reads = is_first(ranks.get()) && std::fgets(line, sizeof(line), stdin) != nullptr;
    return told(ranks.get(), reads ? std::atoll(line) : 0, "round");
  };
  while (const int64_t count = asked()) {
    const auto begin = Clock::now();
    run_steps(count);
    tell("step_seconds", seconds_since(begin) / static_cast<double>(count));
  }
}

int run(int argc, char** argv) {
  const auto start = Clock::now();
  check(argc >= 7, "usage: ranks_step LAYERS HEADS WIDTH SEQ BATCH VOCAB [key=value ...]");
  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  const gpt::GptRun run = make_run(arguments);
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) {
    train_as_told(start, run, nullptr, arguments);
    return 0;
  }
  MpiProcess process(
      {.tell = [](const std::string& message) { std::fprintf(stderr, "%s\n", message.c_str()); },
       .is_interrupted = [] { return false; },
       .interrupt = [] {}});
  train_as_told(start, run,
                make_ranks(run.train.parallel, process.world(run.train.parallel.timeout_s)),
                arguments);
  process.finish();
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
