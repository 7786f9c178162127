// The section `objective.ppo`: how answers are written, what they earn, and how values and policy learn of it.
#pragma once

#include <vector>

#include "suites/transformer/alignment/grpo_config.h"

namespace mstrain {

struct PpoConfig {
  int64_t answer_tokens = 16;
  std::vector<RewardConfig> rewards{RewardConfig()};
  int64_t passes = 4;
  double clip = 0.2;
  double value_clip = 0.2;
  double value_weight = 0.1;
  double discount = 1;
  double gae_lambda = 0.95;
  double kl = 0.05;
  bool whiten = true;
  bool leave_out_cut = false;
  GenerationConfig generation;

  template <class V>
  void fields(V& v) {
    v("answer_tokens", answer_tokens, "an answer has so many tokens at most",
      rule::at_least(1).elsewhere_called(
          {"response_length", "max_new_tokens", "max_completion_length"}));
    v("rewards", rewards, "what an answer earns at its last token");
    v("passes", passes, "steps that learn from the same answers",
      rule::at_least(1).at_most(1000).elsewhere_called({"num_ppo_epochs", "ppo_epochs"}));
    v("clip", clip, "ratios of probabilities count from 1 less this to 1 and this",
      rule::positive().at_most(1).elsewhere_called({"cliprange", "clip_range", "epsilon"}));
    v("value_clip", value_clip,
      "values count as far from those that were found when the answers were written",
      rule::positive().elsewhere_called({"cliprange_value", "clip_range_vf"}));
    v("value_weight", value_weight, "of the values' loss",
      rule::at_least(0).elsewhere_called({"vf_coef", "value_loss_coef"}));
    v("discount", discount, "of what is earned a token later",
      rule::at_least(0).at_most(1).elsewhere_called({"gamma"}));
    v("gae_lambda", gae_lambda,
      "1: advantages look at what is earned up to the end; 0: at the next token's value",
      rule::at_least(0).at_most(1).elsewhere_called({"lam", "lambda"}));
    v("kl", kl,
      "what each token pays for being likelier than with the model that the run begins with, times "
      "the logarithm of by how much",
      rule::at_least(0).elsewhere_called({"kl_coef", "init_kl_coef"}));
    v("whiten", whiten, "advantages of a step have mean 0 and deviation 1",
      rule::elsewhere_called({"whiten_advantages"}));
    v("leave_out_cut", leave_out_cut, "answers without an end within answer_tokens teach nothing");
    v("generation", generation, "how answers are written");
  }

  // How answers are written and their ratios clipped: as groups of one.
  GrpoConfig writing() const {
    return {.group = 1,
            .answer_tokens = answer_tokens,
            .rewards = rewards,
            .passes = passes,
            .clip_low = clip,
            .clip_high = clip,
            .kl = kl,
            .leave_out_cut = leave_out_cut,
            .generation = generation};
  }
};

}  // namespace mstrain
