// What the policy, and the model that the run begins with, say of the tokens of written answers, read before a step; and what that tells of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/params.h"
#include "core/train/sections.h"
#include "suites/transformer/alignment/grpo_config.h"
#include "suites/transformer/alignment/shared_prompts.h"
#include "suites/transformer/text/causal_model.h"
#include "suites/transformer/text/shared_model.h"

namespace mstrain {

// Log-probabilities are [rows, seq] in one piece, 0 where nothing is written.
class AnswerLogProbs {
 public:
  // `reference`: as of preference_task(). `shared`: where ranks find them together, each given its parts of the weights; null: this one alone.
  // `groups`: of the rows.
  AnswerLogProbs(std::shared_ptr<const CausalModel> model, std::string reference, int64_t rows,
                 int64_t seq, const GenerationConfig& generation, Execution execution,
                 const AnswerGroups& groups = {},
                 const std::shared_ptr<const SharedModel>& shared = nullptr);

  // What of_policy() takes in memory beside weights of type `dtype`, by the plan of its program in the current context.
  int64_t bytes(Dtype dtype) const;

  struct Answers {
    std::span<const int32_t> tokens, targets;  // [rows, seq]
    std::span<const int32_t> supports;         // [rows, seq, generation.support()]
  };
  // `params`: all weights, or, of ranks that find them together, parts.
  std::vector<float> of_policy(const Params& params, const Answers& answers) const;
  std::vector<float> of_reference(const Params& params, const Answers& answers) const;
  // The policy's, and its values of all tokens. For a head of both.
  struct Valued {
    std::vector<float> log_probs, values;
  };
  Valued of_policy_and_values(const Params& params, const Answers& answers) const;

 private:
  // Of a batch like drawn_from()'s: tokens, targets, and supports where they are kept.
  using Reader = std::function<Tensor(const Params&, const Tensors& batch)>;
  // What a reader gives of all rows, some at a time: for each of its outputs [rows, seq] in one piece.
  template <size_t outputs>
  std::array<std::vector<float>, outputs> read(const Reader& reader, const Params& params,
                                               const Answers& answers) const;
  int64_t rows_at_once() const;

  std::shared_ptr<const CausalModel> model_;
  int64_t rows_, seq_;
  GenerationConfig generation_;
  AnswerGroups groups_;
  Reader policy_, reference_, valued_;
};

// Of tokens that were drawn from `policy` at temperature 1: minus their mean, an unbiased estimate of its entropy in nats by token.
double entropy_of(std::span<const float> policy, std::span<const int32_t> targets);
// And of its divergence from the reference: the mean of exp(d) - d - 1, d = reference - policy, as grpo_task() has it.
double divergence_of(std::span<const float> policy, std::span<const float> reference,
                     std::span<const int32_t> targets);
// How far the probabilities that a step finds for written tokens are from those that they were drawn by, where `d` is the difference of a
// token's logarithms: means and maximum of |d|, and the mean of (exp(d) - 1)², which estimates their χ² divergence.
struct Mismatch {
  double mean = 0, max = 0, chi_square = 0;
};
Mismatch mismatch_of(std::span<const float> step, std::span<const float> drawn,
                     std::span<const int32_t> targets);
// The shares of tokens that a step learns nothing from, since the ratio of `now` to `written` has left the limits the way that the
// advantage of their answer, or their own, asks for: [rows] or [rows, seq].
struct ClippedShares {
  double low = 0, high = 0;
};
ClippedShares clipped_shares(const GrpoConfig& config, std::span<const float> now,
                             std::span<const float> written, std::span<const int32_t> targets,
                             std::span<const float> advantages);

}  // namespace mstrain
