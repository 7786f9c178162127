#include <gtest/gtest.h>

#include "core/mstrain.h"
#include "suites/reinforcement/algorithms/a2c.h"
#include "suites/reinforcement/algorithms/distributions.h"
#include "suites/reinforcement/algorithms/impala.h"
#include "suites/reinforcement/algorithms/ppo.h"
#include "tests/golden/reinforcement_losses.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kClose = 1e-6;  // sums of a few f32

Tensor rows(std::vector<float> values, const Shape& shape) {
  return tensor<float>(std::span<const float>(values), shape);
}

// The batch of reinforcement_losses.py.
OnPolicyBatch batch() {
  return {.action_bd = rows({2, 0, 1, 1, 2}, {5, 1}),
          .log_prob_b = rows({-0.9F, -0.4F, -1.5F, -1.1F, -1.2F}, {5}),
          .value_b = rows({0.1F, -0.2F, 1.9F, 0, -0.1F}, {5}),
          .advantage_b = rows({1, -0.5F, 0.7F, -1.3F, 0.4F}, {5}),
          .target_b = rows({1, 0.2F, 0.9F, -0.6F, 0.3F}, {5})};
}

Judgement judgement() {
  const Categorical policy{
      rows({0.3F, -0.2F, 0.9F, 1.1F, 0, -0.7F, -0.4F, 0.5F, 0.2F, 0, 0, 0, 2, -1, 0.3F}, {5, 3})};
  return {policy.log_prob(cast(squeeze(batch().action_bd, -1), Dtype::kI32)), policy.entropy(),
          rows({0.5F, -0.3F, 1.2F, 0.1F, -0.8F}, {5})};
}

Knobs knobs() { return {scalar(0), scalar(0.2), scalar(1.5)}; }

double measure(const Loss& loss, std::string_view name) {
  for (const auto& [found, value] : loss.measures) {
    if (found == name) {
      return item(value);
    }
  }
  ADD_FAILURE() << "no measure " << name;
  return 0;
}

TEST(Losses, PpoIsThePaper) {
  Ppo ppo;
  ppo.value_clip = 0.3;
  ppo.kl_target = 0.01;
  const Loss loss = ppo.loss(judgement(), batch(), knobs());
  EXPECT_NEAR(measure(loss, "policy_loss"), golden::kPpoPolicyLoss, kClose);
  EXPECT_NEAR(measure(loss, "value_loss"), golden::kPpoValueLoss, kClose);
  EXPECT_NEAR(measure(loss, "entropy"), golden::kEntropy, kClose);
  EXPECT_NEAR(measure(loss, "kl"), golden::kKl, kClose);
  EXPECT_NEAR(measure(loss, "clip_fraction"), golden::kClipFraction, kClose);
  EXPECT_NEAR(item(loss.loss), golden::kPpoLoss, kClose);
}

TEST(ActorCritic, PoliciesGoByTheirOwnNumbersAlone) {
  EnvSpec env{.name = "team",
              .observation = Space::box(Shape{4}, -1, 1),
              .action = Space::discrete(3),
              .agents = 2,
              .own_numbers = 2};
  const ActorCritic network(env, {.hidden = {5}});
  const Params p = init_params(network.specs(), 3);
  const Tensor seen = rows({0.5F, -1, 0.2F, 0.3F, 0.5F, -1, -0.9F, 0.7F}, {2, 4});
  const Judgement said = network.judge(p, seen, rows({1, 1}, {2, 1}));
  const std::vector<float> log_probs = to_vector<float>(said.log_prob_n);
  const std::vector<float> values = to_vector<float>(said.value_n);
  EXPECT_EQ(log_probs[0], log_probs[1]);
  EXPECT_NE(values[0], values[1]);
}

// All steps at once are what one step after another says; a memory does not reach over the beginning of an episode, and learns through time.
TEST(ActorCritic, RemembersWithinEpisodes) {
  constexpr int64_t kSteps = 5, kRows = 2, kSeen = 3;
  const EnvSpec env{
      .name = "x", .observation = Space::box(Shape{kSeen}, -1, 1), .action = Space::discrete(3)};
  const ActorCritic network(env, {.hidden = {6}, .memory = 4});
  EXPECT_EQ(network.memory_size(), 8);
  const Params p = init_params(network.specs(), 3);
  const Tensor seen = normal(rng_key(1), {kSteps * kRows, kSeen});
  const Tensor before = normal(rng_key(2), {kRows, 8});
  // The second row begins an episode in front of step 3.
  const Tensor kept = rows({1, 1, 1, 1, 1, 1, 1, 0, 1, 1}, {kSteps, kRows});
  const Tensor noise = uniform(rng_key(4), {kSteps * kRows, 3});
  std::vector<float> actions, log_probs, values;
  Tensor memory = before;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Slice now{step * kRows, (step + 1) * kRows};
    memory = memory * expand_dims(kept[{step}], -1);
    const Decision decision = network.decide(p, seen[{now}], noise[{now}], memory);
    const Choice choice = network.best_action(p, seen[{now}], memory);
    EXPECT_EQ(to_vector<float>(*choice.memory_nm), to_vector<float>(*decision.memory_nm));
    EXPECT_EQ(to_vector<float>(network.value(p, seen[{now}], memory)),
              to_vector<float>(decision.value_n));
    memory = *decision.memory_nm;
    for (const auto& [from, to] :
         {std::pair(decision.action_nd, &actions), std::pair(decision.log_prob_n, &log_probs),
          std::pair(decision.value_n, &values)}) {
      const std::vector<float> part = to_vector<float>(from);
      to->insert(to->end(), part.begin(), part.end());
    }
  }
  const Tensor taken = tensor<float>(actions, {kSteps * kRows, 1});
  const auto judge = [&](const Tensor& x) {
    return network.judge(p, x, taken, Past{before, kept});
  };
  const Judgement all = judge(seen);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(to_doubles(all.log_prob_n)[i], log_probs[i], 1e-6) << i;
    EXPECT_NEAR(to_doubles(all.value_n)[i], values[i], 1e-6) << i;
  }
  const auto last = [&](const Tensor& x) {
    const Judgement said = judge(x);
    return sum((said.log_prob_n + said.value_n)[{Slice{(kSteps - 1) * kRows, kSteps * kRows}}]);
  };
  const std::vector<double> slopes = to_doubles(grad(last)(seen));
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t row = 0; row < kRows; ++row) {
      const double slope = slopes[static_cast<size_t>((step * kRows + row) * kSeen)];
      EXPECT_EQ(slope == 0, row == 1 && step < 3) << step << " " << row;
    }
  }
}

TEST(Losses, ActorCriticsShareOne) {
  A2c a2c;
  Impala impala;
  EXPECT_NEAR(item(a2c.loss(judgement(), batch(), knobs()).loss), golden::kA2cLoss, kClose);
  EXPECT_NEAR(item(impala.loss(judgement(), batch(), knobs()).loss), golden::kA2cLoss, kClose);
  EXPECT_NEAR(measure(impala.loss(judgement(), batch(), knobs()), "kl"), golden::kKl, kClose);
}

TEST(Losses, SquashedActionsHaveTheDensityOfTheChangeOfVariables) {
  const SquashedSample found = sample_squashed(
      {rows({0.3F, -1.2F}, {1, 2}), rows({-0.5F, 0.4F}, {2})}, rows({0.8F, -2.5F}, {1, 2}));
  EXPECT_NEAR(item(found.log_prob_n), golden::kSquashedLogProb, 1e-5);
  EXPECT_NEAR(to_doubles(found.action_nd)[0], golden::kSquashedAction, kClose);
}

TEST(Losses, DrawsOfActionsHaveTheirProbabilities) {
  constexpr int64_t kDraws = 20000;
  const Tensor noise = uniform(rng_key(5), {kDraws, 3});
  const Categorical policy{broadcast_to(rows({0.5F, -0.5F, 1}, {1, 3}), {kDraws, 3})};
  const std::vector<double> ids = to_doubles(policy.sample(noise));
  const std::vector<double> wanted = to_doubles(softmax(rows({0.5F, -0.5F, 1}, {3})));
  for (int action = 0; action < 3; ++action) {
    const auto hits = static_cast<double>(std::count(ids.begin(), ids.end(), action));
    EXPECT_NEAR(hits / kDraws, wanted[static_cast<size_t>(action)], 0.015);  // four deviations
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
