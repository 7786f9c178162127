// One process of the race against transformers (generate_vs_transformers.py): a GPT of a given size with random weights
// continues random prompts, always by the likeliest token.
//
//   gpt_generate LAYERS HEADS WIDTH POSITIONS VOCAB PROMPT ROWS THREADS
//
// Prints a JSON line when the first tokens are made; then, for every line "N" on standard input, reads the prompts and
// times the N tokens after the first one; for the line "memory", times the reading of as much memory as the weights of a
// token take. Ends with its input.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "benchmarks/run_main.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/runtime/context.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/text/decoder.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds to read `floats` floats, the least of several tries.
double seconds_to_read(int64_t floats, int threads) {
  static std::vector<float> memory;
  memory.assign(static_cast<size_t>(floats), 1.0F);
  double least = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto begin = Clock::now();
    double total = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : total)
    for (int64_t block = 0; block < floats / 1024; ++block) {
      float sums[64] = {};
      const float* x = memory.data() + block * 1024;
      for (int i = 0; i < 1024; i += 64) {
        for (int j = 0; j < 64; ++j) {
          sums[j] += x[i + j];
        }
      }
      total += std::accumulate(sums, sums + 64, 0.0F);
    }
    check(total > 0, "memory was not read");
    least = std::min(least, seconds_since(begin));
  }
  memory = {};
  return least;
}

int run(int argc, char** argv) {
  const auto begin = Clock::now();
  check(argc == 9, "usage: gpt_generate LAYERS HEADS WIDTH POSITIONS VOCAB PROMPT ROWS THREADS");
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  gpt::GptConfig config;
  config.num_layers = number(1);
  config.num_attention_heads = number(2);
  config.hidden_size = number(3);
  config.max_position_embeddings = number(4);
  config.vocab_size = number(5);
  const auto rows = static_cast<size_t>(number(7));
  Context context;
  context.threads = static_cast<int>(number(8));
  const ContextScope scope(context);

  const auto model = std::make_shared<const gpt::Gpt>(config);
  const auto specs = model->specs();
  const Params params = init_params(specs, 1234);
  int64_t weights = 0;  // that every token needs
  for (const ParamSpec& spec : specs) {
    weights += spec.name == "transformer.wpe.weight" ? 0 : spec.type.elements();
  }
  Decoder decoder(model, Execution::kGraph);
  Rng rng(99);
  std::vector<std::vector<int32_t>> prompts(rows);
  std::vector<std::span<const int32_t>> views;
  for (auto& prompt : prompts) {
    for (int64_t i = 0; i < number(6); ++i) {
      prompt.push_back(
          static_cast<int32_t>(rng.below(static_cast<uint64_t>(*config.vocab_size.value))));
    }
    views.emplace_back(prompt);
  }
  const auto likeliest = [&](const std::vector<float>& logits) {
    std::vector<int32_t> out;
    const size_t vocab = logits.size() / rows;
    for (size_t i = 0; i < rows; ++i) {
      const auto first = logits.begin() + static_cast<ptrdiff_t>(i * vocab);
      out.push_back(static_cast<int32_t>(
          std::max_element(first, first + static_cast<ptrdiff_t>(vocab)) - first));
    }
    return out;
  };
  const auto time_tokens = [&](int64_t count) {
    std::vector<int32_t> ids = likeliest(decoder.start(params, views, number(6) + count));
    const auto start = Clock::now();
    for (int64_t i = 0; i < count; ++i) {
      ids = likeliest(decoder.next(params, ids));
    }
    return seconds_since(start);
  };
  time_tokens(1);
  std::printf("{\"first_tokens_seconds\": %.4f, \"weight_bytes\": %lld}\n", seconds_since(begin),
              static_cast<long long>(weights) * 4);
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    if (std::string_view(line).starts_with("memory")) {
      std::printf("{\"read_seconds\": %.6f}\n", seconds_to_read(weights, context.num_threads()));
    } else {
      const int64_t count = std::atoll(line);
      std::printf("{\"token_seconds\": %.6f, \"compilations\": %lld}\n",
                  time_tokens(count) / static_cast<double>(count),
                  static_cast<long long>(decoder.compile_count()));
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
