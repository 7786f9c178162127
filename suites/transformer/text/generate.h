// Continues texts with a language model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/data/tokenizer.h"
#include "core/runtime/context.h"
#include "suites/run/text_writer.h"
#include "suites/transformer/text/decoder.h"

namespace mstrain {

// How the tokens of each text, and what ended it, were drawn.
struct DrawnTokens {
  int64_t support =
      0;  // asked for: so many tokens at most that each could have been; 0: these are not kept
  std::vector<std::vector<float>>
      log_probs;  // by all of them, or by those of the support, at the decoder's temperature
  std::vector<std::vector<int32_t>> supports;  // [tokens, support], -1 where there are fewer
};

// `id` follows in text `row`.
using OnToken = std::function<void(size_t row, int32_t id)>;

// The tokens that follow each of `prompts`, none of which is empty. A text depends on its own prompt and place among them
// alone. Where a text has filled the model's positions, the older half of what the model sees is forgotten.
// Runs in the current context. `known`: ids from there on are never chosen. `held`: so many tokens of a single prompt,
// not all, the decoder has read already. With options.at_once sequences of the decoder, texts that have ended make room for others (continuous
// batching, Yu et al. 2022). `drawn` is told how; the temperature of the sampling must be 1.
std::vector<std::vector<int32_t>> continue_tokens(Decoder& decoder, const Params& params,
                                                  std::span<const std::vector<int32_t>> prompts,
                                                  const WriteOptions& options, int64_t known,
                                                  const OnToken& on_token = nullptr,
                                                  size_t held = 0, DrawnTokens* drawn = nullptr);

class Generator final : public TextWriter {
 public:
  Generator(std::shared_ptr<const CausalModel> model, std::shared_ptr<const Tokenizer> tokenizer,
            Execution execution = Execution::kGraph);

  std::vector<std::string> generate(const Params& params, std::span<const std::string> prompts,
                                    const WriteOptions& options,
                                    const OnText& on_text = nullptr) override;

  int64_t conversation_tokens() const override { return decoder_.model().max_positions(); }
  std::string reply(const Params& params, std::span<const int32_t> conversation,
                    const WriteOptions& options, const OnText& on_text) override;

  int64_t compile_count() const { return decoder_.compile_count(); }

 private:
  // Those tokens of `conversation`, from its start, whose keys and values the decoder holds, with room for `more`.
  size_t held(std::span<const int32_t> conversation, int64_t more) const;

  Decoder decoder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t>
      last_;  // the last conversation with its reply; the decoder holds its first tokens
};

}  // namespace mstrain
