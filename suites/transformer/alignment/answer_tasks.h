// What is learnt of answers: to write them, to prefer one to another, or to say how good they are.
#pragma once

#include <string>

#include "core/train/task.h"
#include "suites/run/network.h"
#include "suites/transformer/alignment/answer_rows.h"
#include "suites/transformer/alignment/objective_config.h"
#include "suites/transformer/alignment/shared_prompts.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

// Supervised fine-tuning: cross-entropy of the answers' tokens, by token. Metrics: accuracy of tokens, and the share of answers that
// greedy decoding would write as they are. `kind`: single or packed rows.
TrainTask sft_task(const Network& network, std::shared_ptr<const CausalModel> model, RowKind kind,
                   int64_t seq);

// Over rows of pairs, with r = log p - log p of the reference, of the tokens of an answer:
//   DPO (Rafailov et al. 2023): -log sigmoid(beta (r(chosen) - r(rejected))), sums over tokens; label smoothing mixes in the
//   pair the other way round.
//   IPO (Azar et al. 2023): (r(chosen) - r(rejected) - 1 / (2 beta))², means over tokens.
// Metrics: the share of pairs whose chosen answer has the greater r, and the means of the rewards beta r of both and of their
// difference, the margin. The reference computes without dropout; its
// weights are frozen, in `dtype`, under the folder `reference`, or, where that is empty, the network's own without adapters. `groups`: of two
// where the answers of a pair share its prompt.
TrainTask preference_task(const Network& network, std::shared_ptr<const CausalModel> model,
                          const ObjectiveConfig& objective, int64_t seq,
                          const std::string& reference, Dtype dtype,
                          const AnswerGroups& groups = {});

// KTO (Ethayarajh et al. 2024) over rows of kind kJudged, with their step's reference point f32 [rows] behind (reference_point.h), which no
// gradient passes: with r as above, sums over tokens, weight × (1 - sigmoid(beta (r - point))) of answers that are wanted, and
// weight × (1 - sigmoid(beta (point - r))) of those that are not, by answer. Metrics: the share of answers with r > 0 where they are wanted, else
// r < 0; and the means of beta r of both kinds.
TrainTask judged_task(const Network& network, std::shared_ptr<const CausalModel> model,
                      const ObjectiveConfig& objective, int64_t seq, const std::string& reference,
                      Dtype dtype);

// A reward model (Bradley & Terry 1952; Ouyang et al. 2022) over rows of kind kEnds: -log sigmoid(s(chosen) - s(rejected)) of the scores of
// whole texts, plus center (s(chosen) + s(rejected))² (Eisenstein et al. 2023). Metrics as of preference_task(), with s for beta r; `groups` likewise.
TrainTask scored_task(const Network& network, std::shared_ptr<const CausalModel> model,
                      const ObjectiveConfig& objective, int64_t seq,
                      const AnswerGroups& groups = {});

// log p - log p of the reference, of the answers of [b, t] rows, sums over tokens: [b]. Through the reference no gradient passes. `groups`: of
// the rows.
Tensor log_ratios(const CausalModel& model, const Params& params, const std::string& reference,
                  const Tensor& tokens_bt, const Tensor& targets_bt,
                  const AnswerGroups& groups = {});

// Keeps the weights that the run begins with, frozen, in `dtype`, under the folder `reference`.
void add_reference(TrainTask& task, const std::string& reference, Dtype dtype);

}  // namespace mstrain
