// Span corruption (Raffel et al. 2020, 3.1.4): parts of a text are cut out; what is left, with a sentinel in place of each
// part, is the input, and the parts, each behind its sentinel, are the target.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/config.h"
#include "core/base/rng.h"
#include "core/data/seq2seq_vocabulary.h"

namespace mstrain {

struct SpanCorruptionConfig {
  double rate = 0.15;
  double mean_length = 3;

  template <class V>
  void fields(V& v) {
    v("rate", rate, "part of the tokens that is cut out",
      rule::above(0).below(1).elsewhere_called({"noise_density", "mlm_probability"}));
    v("mean_length", mean_length, "tokens of a part, in the mean",
      rule::at_least(1).elsewhere_called({"mean_noise_span_length"}));
  }
};

class SpanCorruption {
 public:
  // Lengths, in tokens.
  struct Sizes {
    int64_t cut = 0;                                           // tokens that are cut out
    int64_t spans = 0;                                         // parts
    int64_t text = 0;                                          // tokens altogether
    int64_t source() const { return text - cut + spans + 1; }  // with an end, here and below
    int64_t target() const { return cut + spans + 1; }
  };

  // Sources of at most `source_length` tokens. Throws Error where that is too short for any text.
  SpanCorruption(const SpanCorruptionConfig& config, int64_t source_length);

  // Of the longest texts that fit: what every sample of a packed corpus has.
  const Sizes& longest() const { return longest_; }
  // Of a text of 1 … longest().text tokens; no length is greater than the longest one's.
  Sizes sizes_of(int64_t text) const;

  // The first spans of `text` are drawn from `rng`: all ways to cut it into as many parts are equally likely, and it begins
  // with a part that stays. Writes sizes_of(text.size()).source() and target() elements.
  void corrupt(std::span<const int32_t> text, const Seq2SeqVocabulary& vocabulary, Rng& rng,
               std::span<int32_t> source, std::span<int32_t> target) const;

 private:
  SpanCorruptionConfig config_;
  Sizes longest_;
};

}  // namespace mstrain
