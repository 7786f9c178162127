// Proximal policy optimisation (Schulman et al. 2017) of a language model whose head gives a value of every token besides (Ziegler et al. 2019):
// each token of an answer is a step, what the answer earns comes with the last one, and every token pays for leaving the reference.
#pragma once

#include <span>
#include <vector>

#include "core/train/task.h"
#include "suites/run/network.h"
#include "suites/transformer/alignment/ppo_config.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

// A batch: tokens and targets i32 [rows, seq] (-100: not written by the policy, or not to be learnt from); f32 [rows, seq] each: advantages,
// returns, the values, and the log-probabilities of the policy that wrote, which are NaN while it is that one. In training the loss is, by token,
// minus the lesser of ratio and clipped ratio times advantage, plus value_weight / 2 times the greater of (v - return)² and the same of v no further
// than value_clip from the written value. Else it is the cross-entropy of the targets, with the metrics of supervised fine-tuning.
// `model` has a head of both.
TrainTask ppo_task(const Network& network, std::shared_ptr<const CausalModel> model,
                   const PpoConfig& config, int64_t seq, const std::string& reference, Dtype dtype);

// What is known of written answers, [rows, seq] each but for what they earn [rows].
struct ValuedAnswers {
  std::span<const int32_t> targets;
  std::span<const float> log_probs, reference, values;  // reference: empty where nothing is paid
  std::span<const float> rewards;
};
struct TokenAdvantages {
  std::vector<float> advantages, returns;  // [rows, seq]; 0 where nothing is written
};
// Generalised advantages (Schulman et al. 2016), δ_t + discount λ A_{t+1} with δ_t = r_t + discount v_{t+1} - v_t and nothing after the end, where
// r_t = kl (log p of the reference - log p) and the last token's has what the answer earns besides. Returns are A + v, before advantages are whitened.
TokenAdvantages token_advantages(const PpoConfig& config, const ValuedAnswers& answers);
// How much of the returns' variance the values know beforehand: 1 - variance of return - value over that of return; 0 where that is none.
double explained_variance(std::span<const float> values, std::span<const float> returns,
                          std::span<const int32_t> targets);

}  // namespace mstrain
