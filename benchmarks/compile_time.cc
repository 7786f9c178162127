// How long recording and compiling a whole training step takes, by layers: GPT-2 1558M (width 1600, 25 heads, 50,257
// tokens, T 1024) with so many of them, no memory for tensors taken.
//
//   bench_compile [level [layers…]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/base/config.h"
#include "core/train/session.h"
#include "suites/transformer/gpt/gpt_run.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

int run(int argc, char** argv) {
  const std::string level = argc > 1 ? argv[1] : "O2";
  std::vector<int> depths;
  for (int i = 2; i < argc; ++i) {
    depths.push_back(std::atoi(argv[i]));
  }
  if (depths.empty()) {
    depths = {12, 24, 48, 96};
  }
  std::printf("%8s %10s %12s %10s\n", "layers", "seconds", "ms a layer", "kernels");
  for (const int layers : depths) {
    YamlNode tree = parse_yaml(
        "model: {type: gpt, vocab_size: 50257, hidden_size: 1600, num_attention_heads: 25,\n"
        "        max_position_embeddings: 1024}\n"
        "data: {train: none, seq_length: 1024}\n"
        "batch: {global: 8, micro: 4}\n"
        "optimizer: {weight_decay: 0.1}\n",
        "compile_time");
    const std::vector<std::string> overrides{"model.num_layers=" + std::to_string(layers),
                                             "fusion.level=" + level};
    apply_overrides(tree, overrides);
    gpt::GptRun config;
    config.read(tree);
    const TrainTask task = config.task();
    const Context context = make_context(config.train);
    const ContextScope scope(context);
    std::vector<double> times;
    int64_t kernels = 0;
    for (int i = 0; i < 3; ++i) {
      const auto begin = Clock::now();
      const StepProgram program(task, config.train, 4, context);
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      kernels = program.program()->cost().kernels;
    }
    std::sort(times.begin(), times.end());
    std::printf("%8d %10.3f %12.2f %10lld\n", layers, times[1], 1e3 * times[1] / layers,
                static_cast<long long>(kernels));
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run(argc, argv); }
