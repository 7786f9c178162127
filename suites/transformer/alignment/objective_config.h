// The section `objective` of a language model's run: what it learns of, where that is not each next token of a text.
#pragma once

#include <optional>
#include <string>

#include "core/base/config.h"
#include "suites/transformer/alignment/ppo_config.h"
#include "suites/transformer/hf/sections.h"

namespace mstrain {

enum class ObjectiveType { kSft, kDpo, kIpo, kKto, kReward, kGrpo, kPpo };
enum class Overlong { kCut, kSkip };

struct ObjectiveConfig {
  ObjectiveType type = ObjectiveType::kSft;
  AutoOr<std::string> end;
  Overlong overlong = Overlong::kCut;
  int64_t malformed = 0;
  double beta = 0.1;
  double label_smoothing = 0;
  double wanted_weight = 1, unwanted_weight = 1;
  double center = 0;
  GrpoConfig grpo;
  PpoConfig ppo;

  template <class V>
  void fields(V& v) {
    v("type", type,
      "sft: write the answers of lines {\"prompt\": …, \"response\": …} or {\"messages\": "
      "[{\"role\": …, "
      "\"content\": …}, …]}; dpo and ipo: prefer the first answer of lines {\"prompt\": …, "
      "\"chosen\": …, \"rejected\": …}; kto: the same lines, or {\"prompt\": …, \"response\": …, "
      "\"label\": true or false}, of answers that are each wanted or not; reward: score the first "
      "answer of such pairs higher (model.head: score); grpo: write answers to the prompts of "
      "lines "
      "{\"prompt\": …, \"answer\": …} and learn from what they earn; ppo: the "
      "same, with values of every token (model.head: both)",
      rule::one_of({"sft", "dpo", "ipo", "kto", "reward", "grpo", "ppo"})
          .elsewhere_called({"loss_type", "stage", "trainer"}));
    v("end", end,
      "text after each answer, of one token, which the model learns to write; auto: the "
      "tokenizer's token that "
      "ends a text, else a newline",
      rule::elsewhere_called({"eos_token"}));
    v("overlong", overlong,
      "of a sample that is longer than data.seq_length the end of the answer is cut off, or the "
      "line is skipped; grpo, ppo: it always is",
      rule::one_of({"cut", "skip"}).elsewhere_called({"truncation_mode"}));
    v("malformed", malformed,
      "so many lines that cannot be read are skipped and counted; one more is an error",
      rule::at_least(0));
    v("beta", beta,
      "dpo, ipo, kto: how dear it is to differ from the model that the run begins with",
      rule::positive());
    v("label_smoothing", label_smoothing,
      "dpo: share of the pairs that may be labelled the wrong way round",
      rule::at_least(0).below(0.5));
    v("wanted_weight", wanted_weight, "kto: of the losses of answers that are wanted",
      rule::at_least(0).elsewhere_called({"desirable_weight"}));
    v("unwanted_weight", unwanted_weight, "kto: of the losses of answers that are not",
      rule::at_least(0).elsewhere_called({"undesirable_weight"}));
    v("center", center,
      "reward: weight of the square of a pair's sum of scores, which keeps them around 0",
      rule::at_least(0).elsewhere_called({"center_rewards_coefficient"}));
    v("grpo", grpo, "grpo: answers, rewards and weights");
    v("ppo", ppo, "ppo: answers, rewards, values");
  }

  // Samples are pairs of answers; answers are judged one by one; answers earn rewards; the network gives scores; the model that the run
  // begins with is asked too.
  bool prefers() const {
    return type == ObjectiveType::kDpo || type == ObjectiveType::kIpo || scores();
  }
  bool judges() const { return type == ObjectiveType::kKto; }
  bool is_rewarded() const { return type == ObjectiveType::kGrpo || type == ObjectiveType::kPpo; }
  // Some reward compares with the line's answer.
  bool reads_answers() const;
  bool has_values() const { return type == ObjectiveType::kPpo; }
  bool scores() const { return type == ObjectiveType::kReward; }
  bool compares() const {
    return (prefers() && !scores()) || judges() || (is_rewarded() && writing().kl > 0);
  }
  HeadType head() const {
    return scores() ? HeadType::kScore : has_values() ? HeadType::kBoth : HeadType::kNextToken;
  }
  // The section of what is rewarded, and how it writes.
  std::string section() const { return has_values() ? "objective.ppo" : "objective.grpo"; }
  GrpoConfig writing() const { return has_values() ? ppo.writing() : grpo; }
};

// What one key alone cannot tell. Throws ConfigError with the line in `tree`.
void check_objective(const ObjectiveConfig& config, const YamlNode& tree);

}  // namespace mstrain
