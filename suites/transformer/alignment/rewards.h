// What written answers earn, and how much better each is than the others of its group.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suites/transformer/alignment/grpo_config.h"

namespace mstrain {

// Throws ConfigError, with its line in `tree` and which of those at `key` it is, for a pattern that is none, a library that cannot be used, and a key that its type
// does not ask for; and where no weight is other than 0.
void check_rewards(const std::vector<RewardConfig>& rewards, const std::string& key,
                   const YamlNode& tree);

struct WrittenAnswer {
  std::string prompt;
  std::string text;      // without what ends it
  std::string expected;  // the line's
  int64_t tokens = 0;    // with what ends it
  bool is_cut = false;   // it did not come to an end
};

class Rewards {
 public:
  // `end`: objective.end, for reward models.
  Rewards(const std::vector<RewardConfig>& rules, const AutoOr<std::string>& end);
  ~Rewards();
  struct Earned {
    std::vector<double> total;               // of each answer
    std::vector<std::vector<double>> rules;  // each one's, without its weight
  };
  // What each answer earns. Throws Error where a library fails, a pattern takes too long, or what is earned is no number that a float holds.
  Earned earned(std::span<const WrittenAnswer> answers) const;
  std::vector<double> of(std::span<const WrittenAnswer> answers) const;
  // The rules' types; a second one of a type is "regex_2".
  std::vector<std::string> names() const;

 private:
  class Rule;
  std::vector<Rule> rules_;
};

// The share of the characters of the longer one that both have in the same place; 1 of two empty ones.
double share_in_place(std::string_view text, std::string_view expected);

// Of one group: reward - mean, over the standard deviation of the group (of a sample, plus 1e-4, as Shao et al. 2024's implementations have it)
// where `scale` says so; below 0 times `negatives`. All zero where all rewards are equal.
std::vector<double> advantages_of(std::span<const double> rewards, AdvantageScale scale,
                                  double negatives = 1);

}  // namespace mstrain
