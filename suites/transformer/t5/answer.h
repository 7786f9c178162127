// Answers texts with a T5.
#pragma once

#include <memory>
#include <string>

#include "core/data/seq2seq_vocabulary.h"
#include "suites/run/text_writer.h"
#include "suites/transformer/t5/decoder.h"

namespace mstrain::t5 {

// The ids of an answer to each of `sources`, up to its end: one of options.stop or eos_token. An answer depends on its own
// source and place among them alone. Ids from `known` on are never chosen.
std::vector<std::vector<int32_t>> answer_tokens(
    Decoder& decoder, const Params& params, std::span<const std::vector<int32_t>> sources,
    const WriteOptions& options, int64_t known,
    const std::function<void(size_t row, int32_t id)>& on_token = nullptr);

class Answerer final : public TextWriter {
 public:
  // The configuration's tokens must be numbers.
  Answerer(T5 model, std::shared_ptr<const Tokenizer> tokenizer, Execution execution);

  // An empty prompt is answered too. With several beams `on_text` gets each answer as a whole.
  std::vector<std::string> generate(const Params& params, std::span<const std::string> prompts,
                                    const WriteOptions& options,
                                    const OnText& on_text = nullptr) override;
  bool searches_beams() const override { return true; }
  std::string_view separator() const override { return "\n"; }

 private:
  Decoder decoder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace mstrain::t5
