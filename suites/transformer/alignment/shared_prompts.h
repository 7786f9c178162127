// Answers to prompts that several of them share: the tokens of a prompt are passed once for all of its answers, and heads look at answers alone.
// Numbers are those of a pass over whole rows, in contexts that are batch invariant to the last bit; gradients are the same sums in another order.
#pragma once

#include "suites/transformer/alignment/answers.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

// How rows of a batch are answers: every `size` of them that follow each other begin with the same prompt, and no answer has more than `answer_tokens`
// tokens. Parts of a batch, such as micro-batches, begin where as many of them would. 1: prompts are not known to be shared.
struct AnswerGroups {
  int64_t size = 1;
  int64_t answer_tokens = 0;
  int64_t before_target = 0;  // tokens of the longest answer before a row's first target

  // How many of `rows` rows that follow each other share a prompt.
  int64_t shared_in(int64_t rows) const;
  // Whether prompts and answers, which are told apart, and whose keys are joined, are few enough tokens beside whole rows of `seq`.
  bool pays(int64_t seq) const;
  // The first dims of what passes through all layers, of rows of `seq` tokens.
  Shape stream(int64_t rows, int64_t seq) const;
};

// Of pairs as rows that follow each other, in which every token of an answer is a target, or the last one alone. A size of 1 where
// the prompts of a pair differ, as a chat template may write them.
AnswerGroups groups_of_pairs(const AnswerCorpus& corpus, bool last_alone);

class SharedPrompts {
 public:
  // tokens_bt, targets_bt: i32, as of answer_log_probs(). A row's targets are neighbours, the first one where `groups` say; a row without any has no
  // answer. A positive size, and answer_tokens below t.
  SharedPrompts(const Tensor& tokens_bt, const Tensor& targets_bt, const AnswerGroups& groups);

  // Of the tokens whose next ones are those of answers, [b, answer_tokens, width]. Without dropout.
  Tensor features(const CausalModel& model, const Params& p) const;
  // x[b, t, …] at these tokens, [b, answer_tokens, …]; and x[b, answer_tokens] in its rows, [b, t], 0 elsewhere.
  Tensor of_answers(const Tensor& x_bt) const;
  Tensor in_rows(const Tensor& x_ba) const;

 private:
  // Of x[1, tokens, …], all prompts, then all answers, one after the other: the parts, [prompts, prompt, …] and [b, answer_tokens, …].
  Tensor prompts_of(const Tensor& x_1n) const;
  Tensor answers_of(const Tensor& x_1n) const;
  // Attention over such tokens, [1, tokens, heads, head_dim].
  Tensor attend(const AttentionOptions& options, const Tensor& q_1nhd, const Tensor& k_1nhd,
                const Tensor& v_1nhd) const;

  int64_t rows_, seq_, answer_;      // tokens of a row, of an answer
  int64_t prompts_, prompt_;         // how many, and tokens of each, with what fills it up
  Tensor places_ba_;                 // i32: of an answer's tokens in their row
  Tensor tokens_1n_, positions_1n_;  // i32
  Tensor keys_bt_;                   // i32: which token is key t of an answer
};

}  // namespace mstrain
