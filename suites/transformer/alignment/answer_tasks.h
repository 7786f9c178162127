// What is learnt of answers: to write them, or to prefer one to another.
#pragma once

#include <string>

#include "core/train/task.h"
#include "suites/run/network.h"
#include "suites/transformer/alignment/answer_rows.h"
#include "suites/transformer/alignment/objective_config.h"
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
// weights are frozen, in `dtype`, under the folder `reference`, or, where that is empty, the network's own without adapters.
TrainTask preference_task(const Network& network, std::shared_ptr<const CausalModel> model,
                          const ObjectiveConfig& objective, int64_t seq,
                          const std::string& reference, Dtype dtype);

// Keeps the weights that the run begins with, frozen, in `dtype`, under the folder `reference`.
void add_reference(TrainTask& task, const std::string& reference, Dtype dtype);

}  // namespace mstrain
