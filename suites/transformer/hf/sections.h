// Sections of `model` that transformers have in common, with the names that other programs give their keys.
#pragma once

#include "suites/run/init_from.h"

namespace mstrain {

// What a decoder gives of its last features: logits of the next token, one number for a whole text, or logits and a number for each token.
enum class HeadType { kNextToken, kScore, kBoth };
inline constexpr std::initializer_list<const char*> kHeadNames = {"next_token", "score", "both"};
template <class V>
void head_field(V& v, AutoOr<HeadType>& head) {
  v("head", head,
    "next_token: logits of each next token; score: one number, how good a text is "
    "(objective.type: reward); both: logits and for each token a value (objective.type: ppo); "
    "auto: what objective.type needs",
    rule::one_of(kHeadNames).elsewhere_called({"task_type", "num_labels"}));
}
// Of a network, of which no objective says anything.
inline HeadType head_of(const AutoOr<HeadType>& head) {
  return head.value_or(HeadType::kNextToken);
}
// The weight of a score or of values, and what it is called in transformers' classes of sequences.
inline constexpr const char* kScore = "score";
inline constexpr const char* kScoreWeight = "score.weight";

struct NormConfig {
  double eps;  // its default is the model's

  template <class V>
  void fields(V& v) {
    v("eps", eps, "added to the variance, or to the mean of squares of an RMS norm",
      rule::positive().elsewhere_called({"layer_norm_epsilon", "layer_norm_eps",
                                         "layernorm_epsilon", "rms_norm_eps", "norm_eps"}));
  }
};

struct InitConfig : InitFrom {
  double std = 0.02;

  template <class V>
  void fields(V& v) {
    v("std", std,
      "standard deviation of weights; a decoder's before a residual sum: 1/sqrt(2 num_layers) of "
      "it",
      rule::at_least(0).elsewhere_called({"initializer_range", "init_method_std"}));
    InitFrom::fields(v);
  }
};

}  // namespace mstrain
