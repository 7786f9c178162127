#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/base/rng.h"
#include "core/train/ranked_scores.h"

namespace mstrain {
namespace {

struct Group {
  std::vector<double> positives, negatives;
};

double area(const Group& group) {
  double right = 0;
  for (const double p : group.positives) {
    for (const double n : group.negatives) {
      right += p > n ? 1 : p == n ? 0.5 : 0;
    }
  }
  return right / static_cast<double>(group.positives.size() * group.negatives.size());
}

TEST(GroupedScores, AreTheMeanOfAreasBySamples) {
  Rng rng(5);
  GroupedScores scores;
  std::map<uint64_t, Group> groups;
  for (int64_t i = 0; i < 300; ++i) {
    const uint64_t group = rng.below(12) << 45;
    const double score = static_cast<double>(rng.below(20)) / 4;
    const double label = i % 10 == 9 ? -1 : rng.uniform() < 0.3 ? 1 : 0;
    const auto of = static_cast<double>(group);
    scores.add(std::span(&score, 1), std::span(&label, 1), std::span(&of, 1));
    if (label >= 0) {
      (label > 0 ? groups[group].positives : groups[group].negatives).push_back(score);
    }
  }
  double sum = 0, weight = 0;
  for (const auto& [id, group] : groups) {
    if (!group.positives.empty() && !group.negatives.empty()) {
      const auto samples = static_cast<double>(group.positives.size() + group.negatives.size());
      sum += samples * area(group);
      weight += samples;
    }
  }
  EXPECT_NEAR(scores.auc(), sum / weight, 1e-12);
}

TEST(GroupedScores, AreNoNumberWhereNoGroupHasBothKinds) {
  GroupedScores scores;
  const std::vector<double> values{1, 2}, labels{1, 0}, groups{1, 2};
  scores.add(values, labels, groups);
  EXPECT_TRUE(std::isnan(scores.auc()));
}

}  // namespace
}  // namespace mstrain
