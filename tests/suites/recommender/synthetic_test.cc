#include "suites/recommender/data/synthetic.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/train/ranked_scores.h"
#include "tests/amount.h"

namespace mstrain::recommender {
namespace {

SampleBatch some_of(const SyntheticSamples& samples, int64_t first, int64_t count) {
  std::vector<int64_t> which(static_cast<size_t>(count));
  std::iota(which.begin(), which.end(), first);
  SampleBatch out;
  samples.read(which, out);
  return out;
}

TEST(Synthetic, SampleIsAFunctionOfItsIndex) {
  const SyntheticSamples samples({.samples = 100, .vocab = 50});
  const SampleBatch all = some_of(samples, 0, 100);
  const SampleBatch one = some_of(samples, 42, 1);
  EXPECT_EQ(one.labels[0], all.labels[42]);
  for (size_t f = 0; f < all.fields.size(); ++f) {
    EXPECT_EQ(one.fields[f].ids[0], all.fields[f].ids[42]);
    EXPECT_LT(one.fields[f].ids[0], 50U);
  }
}

TEST(Synthetic, BagsHaveSeveralIdsWhoseMeanDecides) {
  const SyntheticSamples samples({.samples = 100, .fields_ = 3, .vocab = 50, .bag = 4});
  const SampleBatch all = some_of(samples, 0, 100);
  const SampleBatch some = some_of(samples, 40, 2);
  const std::vector<double> odds = samples.true_log_odds(all);
  EXPECT_EQ(samples.true_log_odds(some)[1], odds[41]);
  for (size_t f = 0; f < 3; ++f) {
    EXPECT_TRUE(samples.schema().fields[f].is_bag);
    EXPECT_EQ(some.fields[f].offsets, (std::vector<uint32_t>{0, 4, 8}));
    EXPECT_TRUE(std::equal(some.fields[f].ids.begin(), some.fields[f].ids.end(),
                           all.fields[f].ids.begin() + 160));
  }
  // Bags of one and the same id are that id.
  const SyntheticSamples single({.samples = 100, .fields_ = 3, .vocab = 50});
  const SampleBatch of_single = some_of(single, 0, 20);
  SampleBatch repeated = of_single;
  for (SampleBatch::Field& field : repeated.fields) {
    std::vector<uint64_t> ids;
    for (const uint64_t id : field.ids) {
      ids.insert(ids.end(), 4, id);
    }
    field.ids = ids;
  }
  const std::vector<double> expected = single.true_log_odds(of_single);
  const std::vector<double> same = samples.true_log_odds(repeated);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(same[i], expected[i], 1e-12);
  }
}

TEST(Synthetic, IdsFollowZipfsLaw) {
  const int64_t count = repetitions(20000);
  const SyntheticSamples samples({.samples = count, .fields_ = 1, .vocab = 100, .alpha = 1});
  std::vector<int64_t> seen(100);
  const SampleBatch batch = some_of(samples, 0, count);
  for (const uint64_t id : batch.fields[0].ids) {
    ++seen[id];
  }
  std::sort(seen.rbegin(), seen.rend());
  const double harmonic = 5.187377517639621;  // of 100
  EXPECT_NEAR(static_cast<double>(seen[0]) / static_cast<double>(count), 1 / harmonic, 0.02);
  EXPECT_NEAR(static_cast<double>(seen[3]) / static_cast<double>(count), 0.25 / harmonic, 0.02);
}

// Of all scores the true log-odds rank best: no bias, no pair, nothing that is left out, is as good.
TEST(Synthetic, ClicksComeFromTheLogOdds) {
  const int64_t count = repetitions(8000);
  const SyntheticSamples samples({.samples = count, .fields_ = 8, .vocab = 50});
  const SampleBatch batch = some_of(samples, 0, count);
  const std::vector<double> odds = samples.true_log_odds(batch);
  const std::vector<double> labels(batch.labels.begin(), batch.labels.end());
  RankedScores scores;
  scores.add(odds, labels);
  EXPECT_NEAR(scores.calibration(), 1, 0.1);
  std::vector<double> other = odds;
  for (size_t i = 0; i < other.size(); ++i) {
    other[i] += i % 2 == 0 ? 0.7 : -0.7;
  }
  RankedScores worse;
  worse.add(other, labels);
  EXPECT_GT(scores.auc(), worse.auc());
  EXPECT_GT(scores.auc(), 0.6);
}

}  // namespace
}  // namespace mstrain::recommender
