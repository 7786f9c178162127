// The `sweep` section: several runs of one configuration that differ in some keys.
#pragma once

#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/train/metrics.h"

namespace mstrain {

enum class SweepMethod { kGrid, kRandom, kHalving };

// What a key takes: values of a list, or numbers of a range.
struct SweepKey {
  std::string key;               // "optimizer.lr"
  std::vector<YamlNode> values;  // empty: a range
  double low = 0;
  double high = 0;
  bool is_log = false;      // numbers of equal logarithms are equally likely
  bool is_integer = false;  // both ends are written as integers
  bool operator==(const SweepKey& other) const;
};

// In YAML a map from keys, as a.b.c or as sections in sections, to a list or to {low, high, scale}; null: left out.
template <>
struct ConfigCodec<std::vector<SweepKey>> {
  static void read(const ConfigAt& at, std::vector<SweepKey>& out);
  static YamlNode write(const std::vector<SweepKey>& keys, const ConfigRule& rule);
  static std::string type(const ConfigRule& rule);
};

struct SweepConfig {
  SweepMethod method = SweepMethod::kGrid;
  std::vector<SweepKey> keys;
  std::optional<int64_t> runs;
  std::string metric = kEvalLoss;
  int64_t seed = 0;
  std::optional<int64_t> first_steps;
  int64_t factor = 3;

  template <class V>
  void fields(V& v) {
    v("method", method,
      "grid: every combination of the lists; random: `runs` draws; halving: many begin, and the "
      "better ones go on",
      rule::one_of({"grid", "random", "halving"}));
    v("keys", keys, "what differs between the runs", rule::required());
    v("runs", runs, "how many are drawn; null: every combination of the lists",
      rule::at_least(1).at_most(10000));
    v("metric", metric, "of the last evaluation, by which runs are compared");
    v("seed", seed, "of the draws", rule::at_least(0));
    v("first_steps", first_steps,
      "halving: steps after which runs are compared for the first time; null: such that there are "
      "three comparisons, or as many as evaluations allow",
      rule::at_least(1));
    v("factor", factor,
      "halving: one in so many goes on, rounded up, for as many times the steps (without "
      "first_steps: about as many)",
      rule::at_least(2));
  }
};

}  // namespace mstrain
