#include "core/data/seq2seq_vocabulary.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr std::string_view kSentinel = "<extra_id_";

std::string sentinel_name(int64_t index) { return fmt::format("{}{}>", kSentinel, index); }

// Of a text that is one token.
std::optional<int32_t> id_of(const Tokenizer& tokenizer, std::string_view token) {
  try {
    const std::vector<int32_t> ids = tokenizer.encode(token);
    // An id of what is unknown stands for any text.
    return ids.size() == 1 && tokenizer.decode(ids) == token ? std::optional(ids[0]) : std::nullopt;
  } catch (const Error&) {  // a character that the tokenizer does not know
    return std::nullopt;
  }
}

std::optional<int32_t> end_of(const Tokenizer& tokenizer) {
  const std::vector<int32_t> after = tokenizer.special().after;
  return after.empty() ? tokenizer.end_of_text() : std::optional(after.back());
}

}  // namespace

Seq2SeqVocabulary::Seq2SeqVocabulary(std::shared_ptr<const Tokenizer> tokenizer,
                                     const OfModel& model)
    : tokenizer_(std::move(tokenizer)), size_(tokenizer_->vocab_size()) {
  const auto next = [this] { return static_cast<int32_t>(size_++); };
  const auto own = [&, ids = size_](std::optional<int32_t> named, std::optional<int64_t> given) {
    const bool has_given = given && *given >= 0 && *given < ids;
    return named ? *named : has_given ? static_cast<int32_t>(*given) : next();
  };
  pad_ = own(tokenizer_->pad() ? tokenizer_->pad() : id_of(*tokenizer_, kFill), model.pad);
  end_ = own(end_of(*tokenizer_), model.end);
  while (const auto id = id_of(*tokenizer_, sentinel_name(sentinels()))) {
    sentinels_.push_back(*id);
  }
  if (sentinels_.empty()) {
    size_ += model.sentinels;
    for (int64_t i = 0; i < model.sentinels; ++i) {
      sentinels_.push_back(static_cast<int32_t>(size_ - 1 - i));
    }
  }
}

int32_t Seq2SeqVocabulary::sentinel(int64_t index) const {
  check(index >= 0 && index < sentinels(), "there are {} sentinels, and none has number {}",
        sentinels(), index);
  return sentinels_[static_cast<size_t>(index)];
}

TokensBeside Seq2SeqVocabulary::beside() const {
  TokensBeside out{.end = end_};
  for (auto id = static_cast<int32_t>(tokenizer_->vocab_size()); id < size_; ++id) {
    out.added.push_back(id == pad_ ? kFill : id == end_ ? kTextEnd : sentinel_name(size_ - 1 - id));
  }
  return out;
}

std::vector<int32_t> Seq2SeqVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view part) {
    if (!part.empty()) {
      const std::vector<int32_t> more = tokenizer_->encode(part);
      ids.insert(ids.end(), more.begin(), more.end());
    }
  };
  size_t begin = 0;
  for (size_t at = text.find(kSentinel); at != text.npos; at = text.find(kSentinel, at + 1)) {
    const char* const digits = text.data() + at + kSentinel.size();
    int64_t index = 0;
    const auto [end, error] = std::from_chars(digits, text.data() + text.size(), index);
    if (error == std::errc() && end != text.data() + text.size() && *end == '>' && index >= 0 &&
        index < sentinels()) {
      add(text.substr(begin, at - begin));
      ids.push_back(sentinel(index));
      begin = static_cast<size_t>(end - text.data()) + 1;
    }
  }
  add(text.substr(begin));
  return ids;
}

std::string Seq2SeqVocabulary::piece(int32_t id, bool is_first) const {
  if (const auto at = std::ranges::find(sentinels_, id); at != sentinels_.end()) {
    return sentinel_name(at - sentinels_.begin());
  }
  if (id == pad_ || id == end_ || id < 0 || id >= tokenizer_->vocab_size()) {
    return "";
  }
  const std::span<const int32_t> one(&id, 1);
  return is_first ? tokenizer_->decode(one) : tokenizer_->decode_further(one);
}

}  // namespace mstrain
