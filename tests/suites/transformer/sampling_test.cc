#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "suites/transformer/text/generate.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

// How often each id is chosen, of 4000.
std::vector<int> draws(const std::vector<float>& logits, SamplingOptions options) {
  std::vector<int> counts(logits.size());
  Rng rng(17);
  for (int i = 0; i < 4000; ++i) {
    ++counts[static_cast<size_t>(choose_token(logits, options, rng))];
  }
  return counts;
}

TEST(Sampling, FollowsTheProbabilities) {
  // 0.5, 0.25, 0.125, 0.125; a binomial count of 4000 strays by less than 5 sqrt(4000 / 4) = 158.
  const std::vector<float> logits{std::log(2.0F), std::log(4.0F), 0, 0};
  const auto expect = [&](const SamplingOptions& options, std::vector<double> shares) {
    const std::vector<int> counts = draws(logits, options);
    for (size_t i = 0; i < counts.size(); ++i) {
      EXPECT_NEAR(counts[i], 4000 * shares[i], shares[i] == 0 ? 0 : 158) << i;
    }
  };
  expect({}, {0.25, 0.5, 0.125, 0.125});
  expect({.temperature = 0.5}, {4 / 22., 16 / 22., 1 / 22., 1 / 22.});
  expect({.top_k = 2}, {1 / 3., 2 / 3., 0, 0});
  expect({.top_k = 3}, {2 / 7., 4 / 7., 1 / 7., 0});
  expect({.top_p = 0.5}, {0, 1, 0, 0});
  expect({.top_p = 0.51}, {1 / 3., 2 / 3., 0, 0});
  expect({.top_k = 3, .top_p = 0.9}, {2 / 7., 4 / 7., 1 / 7., 0});
  expect({.top_k = 3, .top_p = 0.8}, {1 / 3., 2 / 3., 0, 0});
  expect({.top_k = 100, .top_p = 1}, {0.25, 0.5, 0.125, 0.125});
  expect({.greedy = true}, {0, 1, 0, 0});
}

TEST(Sampling, TopPSortsAsFarAsItMust) {
  // 1000 tokens that are equally likely but for noise: 90 % of them are kept.
  Rng rng(3);
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) {
    logits.push_back(static_cast<float>(rng.uniform()) * 1e-3F);
  }
  const std::vector<int> counts = draws(logits, {.top_p = 0.3});
  std::vector<size_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  for (size_t i = 301; i < ids.size(); ++i) {
    EXPECT_EQ(counts[ids[i]], 0) << i;
  }
  EXPECT_GT(
      std::count_if(ids.begin(), ids.begin() + 300, [&](size_t id) { return counts[id] > 0; }),
      290);
}

TEST(Sampling, MinPCutsWhatIsUnlikelyBesideTheLikeliest) {
  // Probabilities 8, 4, 2, 1 of 15; at temperature 2 their roots.
  std::vector<float> logits;
  for (const double weight : {2.0, 8.0, 1.0, 4.0}) {
    logits.push_back(static_cast<float>(std::log(weight)));
  }
  const auto support = [&](const SamplingOptions& options) {
    Rng rng(1);
    std::vector<int64_t> out;
    const int64_t id = choose_token(logits, options, rng, &out);
    EXPECT_THAT(out, testing::Contains(id));
    std::sort(out.begin(), out.end());
    return out;
  };
  EXPECT_THAT(support({.min_p = 0.2}), ElementsAre(0, 1, 3));
  EXPECT_THAT(support({.min_p = 0.3}), ElementsAre(1, 3));
  EXPECT_THAT(support({.temperature = 2, .min_p = 0.3}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(support({.top_k = 2, .min_p = 0.01}), ElementsAre(1, 3));
  EXPECT_THAT(support({.top_p = 0.9, .min_p = 0.4}), ElementsAre(1, 3));
  EXPECT_THAT(support({.min_p = 1}), ElementsAre(1));
  EXPECT_THAT(support({}), ElementsAre(0, 1, 2, 3));
  const std::vector<int> counts = draws(logits, {.min_p = 0.3});
  EXPECT_EQ(counts[0] + counts[2], 0);
  EXPECT_NEAR(counts[1], 2.0 * counts[3], 0.3 * counts[1]);
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  Rng rng(1);
  EXPECT_THROW(choose_token({}, {}, rng), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1, NAN}, {}, rng), Error);
  EXPECT_THROW(check_sampling({.temperature = 0}), Error);
  EXPECT_THROW(check_sampling({.top_k = 0}), Error);
  EXPECT_THROW(check_sampling({.top_p = 1.5}), Error);
  EXPECT_THROW(check_sampling({.min_p = 0}), Error);
}

}  // namespace
}  // namespace mstrain
