#include "suites/reinforcement/algorithms/estimators.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/rng.h"

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kSteps = 13;
constexpr int64_t kEnvs = 4;
constexpr double kDiscount = 0.9;

size_t at(int64_t t, int64_t env) { return static_cast<size_t>(t * kEnvs + env); }

// Trajectories with episodes that end in every way, one of them with both flags.
struct Drawn {
  std::vector<float> rewards, values, finals, last, ratios, expected;
  std::vector<uint8_t> terminated, truncated;

  explicit Drawn(uint64_t seed) {
    Rng rng(seed);
    for (int64_t i = 0; i < kSteps * kEnvs; ++i) {
      rewards.push_back(static_cast<float>(rng.normal()));
      values.push_back(static_cast<float>(rng.normal()));
      finals.push_back(static_cast<float>(rng.normal()));
      expected.push_back(static_cast<float>(rng.normal()));
      ratios.push_back(static_cast<float>(std::exp(rng.normal())));
      terminated.push_back(rng.below(6) == 0 ? 1 : 0);
      truncated.push_back(rng.below(6) == 0 ? 1 : 0);
    }
    for (int64_t i = 0; i < kEnvs; ++i) {
      last.push_back(static_cast<float>(rng.normal()));
    }
  }
  Trajectories view() const {
    return {.steps = kSteps,
            .envs = kEnvs,
            .rewards = rewards,
            .values = values,
            .terminated = terminated,
            .truncated = truncated,
            .final_values = finals,
            .last_values = last};
  }
  bool ends(int64_t t, int64_t env) const {
    return terminated[at(t, env)] != 0 || truncated[at(t, env)] != 0;
  }
  // What `of` says in front of step t + 1, seen from step t.
  double next(const std::vector<float>& of, int64_t t, int64_t env) const {
    if (terminated[at(t, env)] != 0) {
      return 0;
    }
    if (truncated[at(t, env)] != 0) {
      return finals[at(t, env)];
    }
    return t + 1 < kSteps ? of[at(t + 1, env)] : last[static_cast<size_t>(env)];
  }
};

TEST(Estimators, GaeIsTheWeightedSumOfAllLaterErrors) {
  const Drawn d(1);
  const double lambda = 0.8;
  std::vector<float> out(d.rewards.size());
  gae(d.view(), kDiscount, lambda, out);
  for (int64_t env = 0; env < kEnvs; ++env) {
    for (int64_t t = 0; t < kSteps; ++t) {
      double sum = 0;
      for (int64_t k = t; k < kSteps; ++k) {
        const double error =
            d.rewards[at(k, env)] + kDiscount * d.next(d.values, k, env) - d.values[at(k, env)];
        sum += std::pow(kDiscount * lambda, static_cast<double>(k - t)) * error;
        if (d.ends(k, env)) {
          break;
        }
      }
      EXPECT_NEAR(out[at(t, env)], sum, 1e-5) << t << " " << env;
    }
  }
}

TEST(Estimators, VTraceIsTheSumOfEquationOne) {
  const Drawn d(2);
  const double lambda = 0.9;
  const double clip_rho = 1.1;
  const double clip_c = 0.7;
  std::vector<float> targets(d.rewards.size());
  std::vector<float> advantages(d.rewards.size());
  v_trace(d.view(), d.ratios, kDiscount, lambda, clip_rho, clip_c, targets, advantages);
  const auto target_of = [&](int64_t s, int64_t env) {
    double sum = d.values[at(s, env)];
    double weight = 1;
    for (int64_t t = s; t < kSteps; ++t) {
      const double rho = std::min<double>(clip_rho, d.ratios[at(t, env)]);
      sum += weight * rho *
             (d.rewards[at(t, env)] + kDiscount * d.next(d.values, t, env) - d.values[at(t, env)]);
      if (d.ends(t, env)) {
        break;
      }
      weight *= kDiscount * lambda * std::min<double>(clip_c, d.ratios[at(t, env)]);
    }
    return sum;
  };
  for (int64_t env = 0; env < kEnvs; ++env) {
    for (int64_t s = 0; s < kSteps; ++s) {
      EXPECT_NEAR(targets[at(s, env)], target_of(s, env), 1e-5);
      const bool goes_on = !d.ends(s, env) && s + 1 < kSteps;
      const double next = goes_on ? target_of(s + 1, env) : d.next(d.values, s, env);
      const double rho = std::min<double>(clip_rho, d.ratios[at(s, env)]);
      EXPECT_NEAR(advantages[at(s, env)],
                  rho * (d.rewards[at(s, env)] + kDiscount * next - d.values[at(s, env)]), 1e-5);
    }
  }
}

TEST(Estimators, RetraceIsTheSumOfEquationThree) {
  const Drawn d(3);
  const double lambda = 0.95;
  std::vector<float> targets(d.rewards.size());
  retrace(d.view(), d.expected, d.ratios, kDiscount, lambda, targets);
  for (int64_t env = 0; env < kEnvs; ++env) {
    for (int64_t s = 0; s < kSteps; ++s) {
      double sum = d.values[at(s, env)];
      double weight = 1;
      for (int64_t t = s; t < kSteps; ++t) {
        if (t > s) {
          weight *= kDiscount * lambda * std::min<double>(1, d.ratios[at(t, env)]);
        }
        sum += weight * (d.rewards[at(t, env)] + kDiscount * d.next(d.expected, t, env) -
                         d.values[at(t, env)]);
        if (d.ends(t, env)) {
          break;
        }
      }
      EXPECT_NEAR(targets[at(s, env)], sum, 1e-5);
    }
  }
}

TEST(Estimators, SeveralStepsEndWithTheEpisode) {
  const std::vector<float> rewards{1, 2, 4};
  const std::vector<uint8_t> none{0, 0, 0};
  const std::vector<uint8_t> second{0, 1, 0};
  const NStep whole = n_step(rewards, none, none, 0.5);
  EXPECT_EQ(whole.reward, 1 + 0.5 * 2 + 0.25 * 4);
  EXPECT_EQ(whole.discount, 0.125);
  EXPECT_EQ(whole.steps, 3);
  const NStep terminated = n_step(rewards, second, none, 0.5);
  EXPECT_EQ(terminated.reward, 2);
  EXPECT_EQ(terminated.discount, 0);
  const NStep truncated = n_step(rewards, none, second, 0.5);
  EXPECT_EQ(truncated.reward, 2);
  EXPECT_EQ(truncated.discount, 0.25);
  EXPECT_EQ(truncated.steps, 2);
}

}  // namespace
}  // namespace mstrain::reinforcement
