// A tokenizer's ids, and those that a model which reads one text and writes another needs besides: a token that fills up
// samples, one that ends a text, and sentinels, which stand for what is missing in a text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/hf_simple.h"
#include "core/data/tokenizer.h"

namespace mstrain {

// Immutable; any thread may use it. Tokens that the tokenizer has (<pad>, the one that ends a document, <extra_id_0>,
// <extra_id_1>, … up to the first that it lacks) keep its ids; the others follow them, sentinels last, the first one at the top.
class Seq2SeqVocabulary {
 public:
  // What a model says of its tokens; none: nothing.
  struct OfModel {
    int64_t sentinels = 0;            // for a tokenizer that has none
    std::optional<int64_t> pad, end;  // for what the tokenizer has, but does not name
  };

  Seq2SeqVocabulary(std::shared_ptr<const Tokenizer> tokenizer, const OfModel& model);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int64_t size() const { return size_; }
  int32_t pad() const { return pad_; }
  int32_t end() const { return end_; }
  int64_t sentinels() const { return std::ssize(sentinels_); }
  // Throws Error unless 0 <= index < sentinels().
  int32_t sentinel(int64_t index) const;

  // What the tokenizer lacks, in the order of ids.
  TokensBeside beside() const;

  // Without an end; <extra_id_0> … are sentinels. Throws Error where a character has no id.
  std::vector<int32_t> encode(std::string_view text) const;
  // The bytes of one of many ids that follow each other, the first where `is_first`; nothing for pad, end and ids of no token.
  std::string piece(int32_t id, bool is_first) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t size_;
  int32_t pad_ = 0;
  int32_t end_ = 0;
  std::vector<int32_t> sentinels_;
};

}  // namespace mstrain
