// The section `environment` of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/config.h"

namespace mstrain::reinforcement {

enum class ResetMode { kSameStep, kNextStep, kDisabled };

struct EnvConfig {
  std::optional<std::string> name;
  std::optional<std::string> library;
  std::optional<std::string> models;
  std::optional<AutoOr<int64_t>> time_limit = AutoOr<int64_t>();
  ResetMode reset = ResetMode::kSameStep;
  double sticky_actions = 0;
  int64_t frame_stack = 1;
  bool team_view = false;
  double scale_rewards = 1;
  std::optional<double> clip_rewards;
  bool normalize_observations = false;
  bool normalize_rewards = false;
  double normalize_discount = 0.99;

  // What people call it: its name, else that of the library's file.
  std::string called() const { return name ? *name : library.value_or(""); }

  template <class V>
  void fields(V& v) {
    v("name", name, "one of those that `mstrain envs` lists; null: that of `library`");
    v("library", library, "shared library that brings the environment (C interface); null: none",
      rule::path());
    v("models", models, "folder of the models that MuJoCo's tasks read; null: none", rule::path());
    v("time_limit", time_limit,
      "steps after which an episode is truncated; auto: the environment's own; null: none",
      rule::at_least(1));
    v("reset", reset,
      "when the next episode begins: with the last step of the one before, with "
      "the step after, or never",
      rule::one_of({"same_step", "next_step", "disabled"}));
    v("sticky_actions", sticky_actions,
      "probability with which an environment repeats its action of the step before",
      rule::at_least(0).below(1));
    v("frame_stack", frame_stack, "so many last observations make one",
      rule::at_least(1).at_most(1024));
    v("team_view", team_view,
      "an agent also sees which of the agents it is, and, for values alone, what all of them see: "
      "policies go by their own (MAPPO)");
    v("scale_rewards", scale_rewards,
      "rewards are multiplied by this; evaluations tell them as they are", rule::positive());
    v("clip_rewards", clip_rewards, "rewards are cut to ± this; null: as they are",
      rule::positive());
    v("normalize_observations", normalize_observations,
      "to mean 0 and variance 1 of all that were seen, cut to ± 10");
    v("normalize_rewards", normalize_rewards,
      "divided by the deviation of the running discounted return, cut to ± 10");
    v("normalize_discount", normalize_discount, "of that return; the algorithm's own",
      rule::at_least(0).at_most(1));
  }
};

}  // namespace mstrain::reinforcement
