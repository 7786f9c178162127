// Beam search: of all continuations of several texts at once the likeliest are followed. As `transformers` has it with
// early_stopping off (generation/utils.py, version 5): a text that has ended competes by its log-probability over its number
// of tokens to the power of a length penalty, and the search ends when no open text can become better.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mstrain {

struct BeamOptions {
  int64_t beams = 1;          // texts that are followed
  double length_penalty = 1;  // above 0: long texts are preferred to what 0 would choose
};

// Throws Error naming the option that makes no sense.
void check_beams(const BeamOptions& options);

// Of one prompt.
class BeamSearch {
 public:
  // Texts have at most `tokens` tokens, and end with any of `stop`, of which they keep none.
  BeamSearch(const BeamOptions& options, int64_t tokens, std::vector<int32_t> stop);

  bool is_done() const { return done_; }
  // `logits`[beams, vocab] of the token that follows each beam; at the beginning all beams are the same. Chooses beams anew,
  // and of tokens only those below `known`.
  void advance(std::span<const float> logits, int64_t known);
  // The token that each beam ends with now, and which beam it was before that.
  std::span<const int32_t> tokens() const { return last_; }
  std::span<const int32_t> from() const { return from_; }

  // The best text, when it is done.
  const std::vector<int32_t>& best() const { return finished_.front().text; }

 private:
  struct Text {
    std::vector<int32_t> text;
    double score = 0;
  };

  bool is_stop(int32_t token) const;
  void finish(Text text);

  BeamOptions options_;
  int64_t most_;
  std::vector<int32_t> stop_;
  std::vector<Text> open_;      // best first
  std::vector<Text> finished_;  // likewise
  std::vector<int32_t> last_, from_;
  int64_t length_ = 0;
  bool done_ = false;
};

}  // namespace mstrain
