// Group relative policy optimisation (Shao et al. 2024), of answers that the policy itself has just written: the ratio of its probabilities to
// those that the answers were drawn by is that of a program to itself, exactly 1, and only its derivative counts, so that nothing needs clipping.
// Where several steps learn from the same answers, ratios to the policy that wrote them are clipped, by token or by answer (GSPO, Zheng et al.
// 2025).
#pragma once

#include <string>

#include "core/train/task.h"
#include "suites/run/network.h"
#include "suites/transformer/alignment/grpo_config.h"
#include "suites/transformer/alignment/shared_prompts.h"
#include "suites/transformer/text/drawn.h"

namespace mstrain {

// A batch: tokens and targets i32 [rows, seq] (-100: not written by the policy, or not to be learnt from), advantages f32 [rows], and where
// `passes` is more than 1 the log-probabilities f32 [rows, seq] of the tokens when they were written, NaN while the policy is that one. In training the loss is
// minus ratio (the lesser of it and the clipped one) times advantage, by token, weighed as the configuration says, with kl times exp(d) - d - 1 where d = log p of the reference -
// log p (Schulman's third estimator). Else it is the cross-entropy of the targets, with the metrics of supervised fine-tuning.
// `reference`: as of preference_task(); asked where kl > 0. `groups`: of the batch's rows.
TrainTask grpo_task(const Network& network, std::shared_ptr<const CausalModel> model,
                    const GrpoConfig& config, int64_t seq, const std::string& reference,
                    Dtype dtype, const AnswerGroups& groups = {});

// log p of each target [b, t], 0 where there is none.
Tensor answer_log_probs(const CausalModel& model, const Params& params, const Tensor& tokens_bt,
                        const Tensor& targets_bt, const DrawnFrom& from = {},
                        const AnswerGroups& groups = {});
// The same of the reference: without the run's adapters and dropout; no gradient passes. `params`: all weights.
Tensor reference_log_probs(const CausalModel& model, const Params& params,
                           const std::string& reference, const Tensor& tokens_bt,
                           const Tensor& targets_bt, const DrawnFrom& from = {},
                           const AnswerGroups& groups = {});

// What the tokens of a batch were drawn from: its last tensor, i32 [rows, seq, support()], where that keeps supports.
DrawnFrom drawn_from(const GenerationConfig& config, std::span<const Tensor> batch);
void add_support(const GenerationConfig& config, Types& batch);  // to its types

// Minus the lesser of ratio and clipped ratio times advantage, [b, t]: the ratio of log_prob_bt to written_bt, by token or by answer, which is 1 where
// written_bt is NaN. `advantage`: [b, 1] or [b, t].
Tensor clipped_loss(const GrpoConfig& config, const Tensor& log_prob_bt, const Tensor& written_bt,
                    const Tensor& counted_bt, const Tensor& advantage);

}  // namespace mstrain
