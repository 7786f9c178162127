#include "suites/transformer/text/generate.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {

Generator::Generator(std::shared_ptr<const CausalModel> model,
                     std::shared_ptr<const Tokenizer> tokenizer, Execution execution)
    : decoder_(std::move(model), execution), tokenizer_(std::move(tokenizer)) {}

std::vector<std::string> Generator::generate(const Params& params,
                                             std::span<const std::string> prompts,
                                             const WriteOptions& options, const OnText& on_text) {
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& prompt : prompts) {
    ids.push_back(tokenizer_->encode_beginning(prompt));
    if (ids.back().empty()) {
      ids.back() = tokenizer_->encode("\n");
    }
  }
  std::vector<std::string> texts(prompts.size());
  // A model may have more logits than its tokenizer has tokens.
  const std::vector<std::vector<int32_t>> written = continue_tokens(
      decoder_, params, ids, options, tokenizer_->vocab_size(), [&](size_t row, int32_t id) {
        const std::string piece = tokenizer_->decode_further(std::span(&id, 1));
        texts[row] += piece;
        if (on_text != nullptr) {
          on_text(row, piece);
        }
      });
  count_cut(written, options.tokens);
  outgrown_ = 0;
  const auto seen = static_cast<size_t>(decoder_.model().max_positions());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (std::min(ids[i].size(), seen) + written[i].size() > seen + 1) {  // the last one is not read
      outgrown_ = std::max(outgrown_, std::ssize(ids[i]) + std::ssize(written[i]));
    }
  }
  return texts;
}

size_t Generator::held(std::span<const int32_t> conversation, int64_t more) const {
  const auto read = static_cast<size_t>(decoder_.length());
  const bool goes_on =
      read > 0 && read <= last_.size() && read < conversation.size() &&
      std::equal(last_.begin(), last_.begin() + static_cast<ptrdiff_t>(read), conversation.begin());
  const int64_t needed = static_cast<int64_t>(conversation.size()) + more - 1;
  return goes_on && needed <= decoder_.capacity() ? read : 0;
}

std::string Generator::reply(const Params& params, std::span<const int32_t> conversation,
                             const WriteOptions& options, const OnText& on_text) {
  const std::vector<int32_t> prompt(conversation.begin(), conversation.end());
  WriteOptions within = options;
  const int64_t room = conversation_tokens() - static_cast<int64_t>(prompt.size()) + 1;
  check(room >= 1, "a conversation of {} tokens is longer than the model's {}", prompt.size(),
        conversation_tokens());
  within.tokens = std::min(options.tokens, room);
  const size_t held = this->held(conversation, within.tokens);
  last_.clear();  // until the decoder has come to its end
  std::string text;
  std::vector<std::vector<int32_t>> written = continue_tokens(
      decoder_, params, std::span(&prompt, 1), within, tokenizer_->vocab_size(),
      [&](size_t row, int32_t id) {
        const std::span<const int32_t> one(&id, 1);
        const std::string piece =
            text.empty() ? tokenizer_->decode(one) : tokenizer_->decode_further(one);
        text += piece;
        if (on_text != nullptr) {
          on_text(row, piece);
        }
      },
      held);
  count_cut(written, within.tokens);
  last_ = prompt;
  last_.insert(last_.end(), written[0].begin(), written[0].end());
  return text;
}

}  // namespace mstrain
