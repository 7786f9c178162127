#include "suites/transformer/alignment/ended_answer.h"

namespace mstrain {

WrittenAnswer ended_answer(const AnswerCorpus& corpus, const AnswerText& prompt,
                           std::vector<int32_t>& written, int64_t most) {
  const Tokenizer& tokenizer = *corpus.tokenizer;
  WrittenAnswer out{.prompt = tokenizer.decode(prompt.prompt(tokenizer.special().before)),
                    .text = tokenizer.decode(written),
                    .expected = tokenizer.decode(prompt.wanted()),
                    .is_cut = std::ssize(written) >= most};
  if (!out.is_cut) {
    written.push_back(corpus.end);
  }
  out.tokens = std::ssize(written);
  return out;
}

}  // namespace mstrain
