// One process of the race against transformers (generate_vs_transformers.py): a GPT or a Llama of a given size with random
// weights continues random prompts, always by the likeliest token.
//
//   bench_generate gpt|llama LAYERS HEADS KEY_HEADS WIDTH FFN POSITIONS VOCAB PROMPT ROWS THREADS [exact]
//
// exact: with the bits that a training step finds, as learning from rewards writes answers (generation.exact).
// Prints a JSON line when the first tokens are made; then, for every line "KIND N" on standard input, where KIND is f32, bf16,
// int8 or nf4, reads the prompts with weights of that kind and times the N tokens after the first one; for the line
// "memory KIND", times the reading of as much memory as the weights of a token take. Ends with its input.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>

#include "benchmarks/run_main.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/runtime/context.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"
#include "suites/transformer/text/decoder.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds to read `bytes`, the least of several tries.
double seconds_to_read(int64_t bytes, int threads) {
  static std::vector<float> memory;
  memory.assign(static_cast<size_t>(bytes / 4), 1.0F);
  double least = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto begin = Clock::now();
    double total = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : total)
    for (int64_t block = 0; block < bytes / 4096; ++block) {
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

struct Sizes {
  int64_t layers, heads, key_heads, width, ffn, positions, vocab;
};

std::shared_ptr<const CausalModel> model_of(const std::string& type, const Sizes& n) {
  if (type == "gpt") {
    gpt::GptConfig config;
    config.num_layers = n.layers;
    config.num_attention_heads = n.heads;
    config.hidden_size = n.width;
    config.max_position_embeddings = n.positions;
    config.vocab_size = n.vocab;
    return std::make_shared<gpt::Gpt>(config);
  }
  check(type == "llama", "model {}: expected gpt or llama", type);
  llama::LlamaConfig config;
  config.num_layers = n.layers;
  config.num_attention_heads = n.heads;
  config.num_key_value_heads = n.key_heads;
  config.hidden_size = n.width;
  config.ffn_hidden_size = n.ffn;
  config.max_position_embeddings = n.positions;
  config.vocab_size = n.vocab;
  return std::make_shared<llama::Llama>(config);
}

class Race {
 public:
  Race(std::shared_ptr<const CausalModel> model, int64_t prompt, int64_t rows)
      : decoder_(model, Execution::kGraph), prompt_(prompt), prompts_(static_cast<size_t>(rows)) {
    const auto specs = model->specs();
    params_["f32"] = init_params(specs, 1234);
    for (const WeightCode code : kAllWeightCodes) {
      params_[std::string(name_of(code))] = in_code(code, params_["f32"], specs);
    }
    Rng rng(99);
    for (auto& each : prompts_) {
      for (int64_t i = 0; i < prompt; ++i) {
        each.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(model->vocab_size()))));
      }
    }
  }

  double token_seconds(const std::string& kind, int64_t count) {
    const Params& params = of(kind);
    const std::vector<std::span<const int32_t>> views(prompts_.begin(), prompts_.end());
    std::vector<int32_t> ids = likeliest(decoder_.start(params, views, prompt_ + count));
    const auto start = Clock::now();
    for (int64_t i = 0; i < count; ++i) {
      ids = likeliest(decoder_.next(params, ids));
    }
    return seconds_since(start) / static_cast<double>(count);
  }

  // Of the weights that a token reads: all but those of which it picks a row.
  int64_t weight_bytes(const std::string& kind) {
    const Params& params = of(kind);
    int64_t bytes = 0;
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string& name = params.name(i);
      const bool picked = name.starts_with("transformer.wpe.") ||
                          (name.starts_with("model.embed_tokens.") && has_own_head());
      bytes += picked ? 0 : params.tensor(i).type().bytes();
    }
    return bytes;
  }

 private:
  const Params& of(const std::string& kind) const {
    const auto found = params_.find(kind);
    check(found != params_.end(), "weights {}: expected f32, bf16, int8 or nf4", kind);
    return found->second;
  }
  bool has_own_head() const { return of("f32").find("lm_head.weight") != nullptr; }

  std::vector<int32_t> likeliest(const std::vector<float>& logits) const {
    std::vector<int32_t> out;
    const size_t vocab = logits.size() / prompts_.size();
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const auto first = logits.begin() + static_cast<ptrdiff_t>(i * vocab);
      out.push_back(static_cast<int32_t>(
          std::max_element(first, first + static_cast<ptrdiff_t>(vocab)) - first));
    }
    return out;
  }

  Decoder decoder_;
  int64_t prompt_;
  std::vector<std::vector<int32_t>> prompts_;
  std::map<std::string, Params> params_;
};

int run(int argc, char** argv) {
  const auto begin = Clock::now();
  const bool exact = argc == 13 && std::string_view(argv[12]) == "exact";
  check(argc == 12 || exact,
        "usage: bench_generate gpt|llama LAYERS HEADS KEY_HEADS WIDTH FFN POSITIONS VOCAB PROMPT "
        "ROWS THREADS [exact]");
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  Context context;
  context.threads = static_cast<int>(number(11));
  context.batch_invariant = exact;
  const ContextScope scope(context);
  Race race(model_of(argv[1],
                     {number(2), number(3), number(4), number(5), number(6), number(7), number(8)}),
            number(9), number(10));
  race.token_seconds("f32", 1);
  std::printf("{\"first_tokens_seconds\": %.4f}\n", seconds_since(begin));
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    std::istringstream words(line);
    std::string kind;
    int64_t count = 0;
    words >> kind;
    if (kind == "memory") {
      words >> kind;
      const int64_t bytes = race.weight_bytes(kind);
      std::printf("{\"read_seconds\": %.6f, \"bytes\": %lld}\n",
                  seconds_to_read(bytes, context.num_threads()), static_cast<long long>(bytes));
    } else {
      words >> count;
      check(count > 0, "expected a kind of weights and a number of tokens, found {}", line);
      std::printf("{\"token_seconds\": %.6f}\n", race.token_seconds(kind, count));
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
