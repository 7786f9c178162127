// The section `objective.grpo`: how answers are written, what they earn, and how they are weighed.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "suites/transformer/alignment/generation_config.h"

namespace mstrain {

enum class RewardType { kExact, kNumber, kRegex, kLength, kPlaces, kLibrary, kModel };
inline constexpr const char* kRewardTypes[] = {"exact",  "number",  "regex", "length",
                                               "places", "library", "model"};

struct RewardConfig {
  RewardType type = RewardType::kExact;
  double weight = 1;
  std::string pattern;
  int64_t at_most = 0;
  std::string path;

  template <class V>
  void fields(V& v) {
    v("type", type,
      "1 where it is so, else 0. exact: the answer is the line's; number: the last number in it is "
      "the line's last one; regex: it holds a match of pattern; length: it has at_most tokens or "
      "fewer, its end among them. places: the share of its characters, or of the line's answer "
      "where that is longer, "
      "that stand where they should. library: what the shared library at path says (c_reward.h); "
      "model: the score of the reward model at path",
      rule::one_of({kRewardTypes[0], kRewardTypes[1], kRewardTypes[2], kRewardTypes[3],
                    kRewardTypes[4], kRewardTypes[5], kRewardTypes[6]}));
    v("weight", weight, "what it is multiplied by; rewards add up");
    v("pattern", pattern,
      "regex: PCRE2's syntax, over characters; (?i) before it leaves case open");
    v("at_most", at_most, "length: so many tokens", rule::at_least(0));
    v("path", path, "library, model: where it is");
  }
};

enum class AdvantageScale { kDeviation, kNone };
enum class TokenWeights { kToken, kSequence, kConstant };
enum class RatioOf { kToken, kSequence };

struct GrpoConfig {
  int64_t group = 8;
  int64_t answer_tokens = 16;
  std::vector<RewardConfig> rewards{RewardConfig()};
  AdvantageScale scale = AdvantageScale::kDeviation;
  TokenWeights weights = TokenWeights::kToken;
  int64_t passes = 1;
  RatioOf ratios = RatioOf::kToken;
  double clip_low = 0.2, clip_high = 0.2;
  double negatives = 1;
  double kl = 0;
  int64_t resample = 0;
  bool leave_out_cut = false;
  GenerationConfig generation;

  template <class V>
  void fields(V& v) {
    v("group", group,
      "answers to each prompt, which are compared with each other; divides batch.global",
      rule::at_least(2).elsewhere_called({"num_generations", "group_size"}));
    v("answer_tokens", answer_tokens, "an answer has so many tokens at most",
      rule::at_least(1).elsewhere_called({"max_completion_length", "max_new_tokens"}));
    v("rewards", rewards, "what an answer earns");
    v("scale", scale,
      "an answer's advantage is its reward less the mean of its group: deviation divides it by the "
      "group's standard deviation, none "
      "does not (Dr. GRPO)",
      rule::one_of({"deviation", "none"}));
    v("weights", weights,
      "token: every token of a step counts alike; sequence: every answer does; constant: its "
      "tokens over answer_tokens (Dr. GRPO)",
      rule::one_of({"token", "sequence", "constant"}));
    v("passes", passes,
      "steps that learn from the same answers. From the second one on the policy is no longer the "
      "one that wrote them: ratios of their probabilities weigh, and are clipped",
      rule::at_least(1).at_most(1000).elsewhere_called(
          {"num_iterations", "ppo_epochs", "num_ppo_epochs"}));
    v("ratios", ratios,
      "token: each token has its own ratio; sequence: an answer has one, the geometric mean of its "
      "tokens' (GSPO)",
      rule::one_of({"token", "sequence"}).elsewhere_called({"importance_sampling_level"}));
    v("clip_low", clip_low, "ratios count down to 1 less this, where passes is more than 1",
      rule::positive().at_most(1).elsewhere_called({"epsilon", "cliprange", "clip_range"}));
    v("clip_high", clip_high, "ratios count up to 1 and this, where passes is more than 1",
      rule::positive().elsewhere_called({"epsilon_high"}));
    v("negatives", negatives,
      "what advantages below 0 are multiplied by. 1: answers worse than their group are unlearnt "
      "as "
      "others are learnt; 0: the better ones are imitated alone (RAFT), which bears wider steps",
      rule::at_least(0).at_most(1));
    v("kl", kl, "how dear it is to differ from the model that the run begins with",
      rule::at_least(0).elsewhere_called({"kl_coef"}));
    v("resample", resample,
      "prompts whose answers all earn the same are replaced by others, up to so many times "
      "(dynamic "
      "sampling, DAPO)",
      rule::at_least(0).at_most(64));
    v("leave_out_cut", leave_out_cut, "answers without an end within answer_tokens teach nothing");
    v("generation", generation, "how answers are written");
  }
};

}  // namespace mstrain
