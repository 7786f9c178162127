// The loss of teams, against the same written by hand in double precision.
#include "suites/reinforcement/algorithms/qmix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/mstrain.h"
#include "tests/suites/reinforcement/algorithms/by_hand.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kAgents = 2, kSeen = 3, kActions = 3, kItems = 4, kMixing = 5;
const NetworkConfig kHeadsAlone{.hidden = {}};

EnvSpec team(int64_t own_numbers = 0) {
  return {.name = "team",
          .observation = Space::box(Shape{kSeen}, -1, 1),
          .action = Space::discrete(kActions),
          .agents = kAgents,
          .own_numbers = own_numbers};
}

// Of all agents of an item: what each one sees of `all`, [A kSeen].
Numbers seen_by(const Numbers& all, size_t agent, size_t own) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(agent * kSeen);
  return {begin, begin + static_cast<ptrdiff_t>(own)};
}

// The value of what all do together; of each agent's, where there is no mixer.
Numbers mixed(Mixer mixer, const Params& p, const Numbers& q, const Numbers& state) {
  if (mixer == Mixer::kNone) {
    return q;
  }
  if (mixer == Mixer::kVdn) {
    return {q[0] + q[1]};
  }
  const Numbers w1 = layer(p, "mixer.w1", state), b1 = layer(p, "mixer.b1", state);
  const Numbers w2 = layer(p, "mixer.w2", state);
  Numbers hidden = layer(p, "mixer.b2_hidden", state);
  for (double& each : hidden) {
    each = std::max(each, 0.0);
  }
  double total = layer(p, "mixer.b2", hidden)[0];
  for (size_t w = 0; w < kMixing; ++w) {
    const double x = q[0] * std::abs(w1[w]) + q[1] * std::abs(w1[kMixing + w]) + b1[w];
    total += std::abs(w2[w]) * (x > 0 ? x : std::exp(x) - 1);
  }
  return {total};
}

struct Case {
  Mixer mixer;
  bool double_q;
  int64_t own;  // of team(): what agents go by; 0: all that they see
};

class TeamLosses : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Mixers, TeamLosses,
                         testing::Values(Case{Mixer::kQmix, true, 0}, Case{Mixer::kQmix, false, 2},
                                         Case{Mixer::kVdn, true, 0}, Case{Mixer::kNone, false, 0}));

TEST_P(TeamLosses, AreAsWrittenByHand) {
  Qmix config;
  config.mixer = GetParam().mixer;
  config.mixing = kMixing;
  config.double_q = GetParam().double_q;
  const size_t own = GetParam().own == 0 ? kSeen : static_cast<size_t>(GetParam().own);
  const auto model = config.model(team(GetParam().own), kHeadsAlone);
  const Params p = numbers(model->specs(), 1), target = numbers(model->specs(), 2);
  const Tensor now = uniform(rng_key(3), {kItems, kAgents * kSeen}),
               next = uniform(rng_key(4), {kItems, kAgents * kSeen});
  const std::vector<float> actions{0, 2, 1, 1, 2, 0, 0, 0}, rewards{1, -3, 0.5F, 0},
      rest{0.9F, 0, 0.8F, 0.9F}, weights{1, 0.5F, 0.25F, 1};
  const Tensor noise = zeros({Dtype::kF32, {kItems, kAgents}});
  const OffPolicyLoss loss = model->loss(
      p, target,
      {now, tensor<float>(actions, {kItems, kAgents}), tensor<float>(rewards, {kItems}),
       tensor<float>(rest, {kItems}), next, tensor<float>(weights, {kItems}), noise, noise});
  double expected = 0;
  for (size_t i = 0; i < kItems; ++i) {
    const auto item_of = [&](const Tensor& all) {
      const Numbers flat = to_doubles(all);
      const auto begin = flat.begin() + static_cast<ptrdiff_t>(i * kAgents * kSeen);
      return Numbers(begin, begin + kAgents * kSeen);
    };
    const auto state_of = [&](const Numbers& all) {
      return own == kSeen ? all
                          : Numbers(all.begin() + static_cast<ptrdiff_t>(own), all.begin() + kSeen);
    };
    const Numbers here = item_of(now), there = item_of(next);
    Numbers q, q_next;
    for (size_t agent = 0; agent < kAgents; ++agent) {
      q.push_back(
          layer(p, "q.head",
                seen_by(here, agent, own))[static_cast<size_t>(actions[i * kAgents + agent])]);
      const Numbers by = layer(config.double_q ? p : target, "q.head", seen_by(there, agent, own));
      const auto best = std::max_element(by.begin(), by.end()) - by.begin();
      q_next.push_back(
          layer(target, "q.head", seen_by(there, agent, own))[static_cast<size_t>(best)]);
    }
    const Numbers total = mixed(config.mixer, p, q, state_of(here));
    const Numbers follows = mixed(config.mixer, target, q_next, state_of(there));
    double error_sum = 0, huber_sum = 0;
    for (size_t k = 0; k < total.size(); ++k) {
      const double error = total[k] - rewards[i] - rest[i] * follows[k];
      const double size = std::abs(error);
      error_sum += size;
      huber_sum += size <= 1 ? 0.5 * size * size : size - 0.5;
    }
    const auto parts = static_cast<double>(total.size());
    expected += weights[i] * huber_sum / parts / kItems;
    EXPECT_NEAR(to_doubles(loss.error_b)[i], error_sum / parts, 1e-5) << i;
  }
  EXPECT_NEAR(item(loss.loss.loss), expected, 1e-5);
}

// What is better for one agent is never worse for all: so each one's best action is part of the best of all.
TEST(TeamLosses, ATeamsValueGrowsWithEachAgents) {
  Qmix config;
  config.mixing = kMixing;
  const auto model = config.model(team(), kHeadsAlone);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Params p = numbers(model->specs(), seed);
    const auto value = [&](float raised) {
      std::vector<float> bias = to_vector<float>(*p.find("q.head.bias"));
      bias[0] += raised;
      Params with = p;
      with.set("q.head.bias", tensor<float>(bias, {kActions}));
      const Tensor seen = uniform(rng_key(seed), {kItems, kAgents * kSeen});
      const Tensor none = zeros({Dtype::kF32, {kItems}});
      const Tensor far_below =
          none - 100;  // so that the error is above 0, and grows with the value
      const Tensor actions = zeros({Dtype::kF32, {kItems, kAgents}});
      return to_doubles(
          model->loss(with, p, {seen, actions, far_below, none, seen, none, actions, actions})
              .error_b);
    };
    const Numbers before = value(0), after = value(0.5F);
    for (size_t i = 0; i < kItems; ++i) {
      EXPECT_GT(after[i], before[i]) << seed << " " << i;
    }
  }
}

TEST(Qmix, RefusesWhatIsNoTeam) {
  const Qmix config;
  EnvSpec alone = team();
  alone.agents = 1;
  EXPECT_THAT([&] { config.model(alone, kHeadsAlone); },
              ThrowsMessage<ConfigError>(HasSubstr("team has one agent; dqn learns for one")));
  EnvSpec boxes = team();
  boxes.action = Space::box(Shape{2}, -1, 1);
  EXPECT_THAT([&] { config.model(boxes, kHeadsAlone); },
              ThrowsMessage<ConfigError>(HasSubstr("qmix chooses one of some actions")));
}

}  // namespace
}  // namespace mstrain::reinforcement
