#include "suites/transformer/gpt/preflight.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/data/corpus.h"
#include "core/train/numbers.h"
#include "suites/transformer/gpt/stored_model.h"

namespace mstrain::gpt {
namespace {

constexpr double kHopeless = 1000;   // times the memory that is there
constexpr double kMostBytes = 1e16;  // whatever is said to be there

// Nearly: biases and norms are left out.
double parameter_count(const GptConfig& model) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto inner = model.ffn_hidden_size ? static_cast<double>(*model.ffn_hidden_size)
                                           : 4 * hidden;  // what may be no int64_t
  const auto rows =
      static_cast<double>(model.vocab_size.value_or(1)) * (model.tie_embeddings ? 1 : 2) +
      static_cast<double>(model.max_position_embeddings);
  return rows * hidden +
         static_cast<double>(model.num_layers) * (4 * hidden * hidden + 2 * hidden * inner);
}

std::string amount(double bytes) {
  return bytes < 1e15 ? gigabytes(static_cast<int64_t>(bytes))
                      : fmt::format("{:.2g} PB", bytes / 1e15);
}

}  // namespace

void refuse_absurd(const GptRunConfig& config, int64_t limit) {
  const double most = std::min(kHopeless * static_cast<double>(limit), kMostBytes);
  const double parameters = parameter_count(config.model);
  const double weights = parameters * sizeof(float);
  if (weights > most) {
    throw PlanError(fmt::format(
        "the plan is impossible: {:.3g} parameters take {} before anything else, but {} are there "
        "(memory.limit_gb); see model.hidden_size, model.num_layers and model.vocab_size",
        parameters, amount(weights), amount(static_cast<double>(limit))));
  }
  const double tokens =
      static_cast<double>(config.train.batch.global) * static_cast<double>(config.data.seq_length);
  const double batch = 2 * tokens * sizeof(int32_t);
  if (batch > most) {
    throw PlanError(
        fmt::format("the plan is impossible: the {:.3g} tokens of a step take {} before anything "
                    "else, but {} are there (memory.limit_gb); see batch.global",
                    tokens, amount(batch), amount(static_cast<double>(limit))));
  }
}

void find_unused_vocabulary(const GptRunConfig& config, int64_t tokens, const YamlNode& tree,
                            Findings& findings) {
  // Sizes are rounded up for speed, and a few ids may be kept for later.
  constexpr int64_t kSpare = 1024;
  const int64_t vocab = config.model.vocab_size.value_or(tokens);
  if (vocab > tokens + tokens / 10 + kSpare) {
    findings.push_back(fmt::format(
        "{}: {} tokens, but data.tokenizer has {}: the others are never trained; say auto",
        config_where(tree, "model.vocab_size"), grouped(vocab), grouped(tokens)));
  }
}

std::optional<int64_t> look_ahead(FileSystem& files, const GptRunConfig& config,
                                  const YamlNode& tree, Findings& findings) {
  std::optional<int64_t> tokens;
  // False where `what` failed, and a plan can be made without it.
  const auto opens = [&](const auto& what) {
    try {
      what();
      return true;
    } catch (const ConfigError&) {
      throw;
    } catch (const Error& error) {
      if (config.model.vocab_size.is_word() && !tokens) {
        throw;
      }
      findings.emplace_back(error.what());
      return false;
    }
  };
  const bool has_tokenizer = opens([&] { tokens = known_vocab_size(files, config.data, tree); });
  if (has_tokenizer) {
    opens([&] {
      const Corpus corpus = open_corpus(files, config.data, nullptr, tree);
      tokens = corpus.tokenizer->vocab_size();
      check_prompts(config, *corpus.tokenizer, tree);
    });
  }
  if (const auto& from = config.model.init.from) {
    try {
      check_params(files, open_model(files, *from));
    } catch (const Error& error) {
      findings.push_back(
          fmt::format("{}: {}", config_where(tree, "model.init.from"), error.what()));
    }
  }
  find_unwritable_output(files, config.train, tree, findings);
  return tokens;
}

void check_prompts(const GptRunConfig& config, const Tokenizer& tokenizer, const YamlNode& tree) {
  for (const std::string& prompt : config.train.eval.prompts) {
    try {
      tokenizer.encode(prompt);
    } catch (const Error& error) {
      config_fail(tree, "eval.prompts", error.what());
    }
  }
}

}  // namespace mstrain::gpt
