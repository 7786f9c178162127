// What MuZero learns, against the same written by hand; and what its searches find.
#include "suites/reinforcement/algorithms/muzero.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/mstrain.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kSeenNumbers = 3, kMoves = 2;
const NetworkConfig kPlainHeads{.hidden = {}};

EnvSpec world() {
  return {.name = "world",
          .observation = Space::box(Shape{kSeenNumbers}, -1, 1),
          .action = Space::discrete(kMoves)};
}

Params random_weights(const MuZeroModel& model, uint64_t seed) {
  Params out;
  for (const ParamSpec& spec : model.specs()) {
    out.set(spec.name, normal(rng_key(seed++), spec.type.shape) * 0.7);
  }
  return out;
}

using Row = std::vector<double>;

Row layer_of(const Params& p, const std::string& path, const Row& x) {
  const Row weight = to_doubles(*p.find(path + ".head.weight"));
  Row out = to_doubles(*p.find(path + ".head.bias"));
  const size_t outputs = out.size();
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < outputs; ++j) {
      out[j] += x[i] * weight[i * outputs + j];
    }
  }
  return out;
}

Row from_zero_to_one(Row x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const double least = *low, range = *high - *low + 1e-5;
  for (double& each : x) {
    each = (each - least) / range;
  }
  return x;
}

double cross_entropy_of(const Row& logits, const Row& target) {
  double sum = 0;
  for (const double each : logits) {
    sum += std::exp(each);
  }
  double out = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    out -= target[i] * (logits[i] - std::log(sum));
  }
  return out;
}

double h(double x) { return (x < 0 ? -1 : 1) * (std::sqrt(std::abs(x) + 1) - 1) + 0.001 * x; }

Row two_hot_of(double x, int64_t support) {
  Row out(static_cast<size_t>(2 * support + 1));
  const double place =
      std::clamp(h(x), -static_cast<double>(support), static_cast<double>(support)) +
      static_cast<double>(support);
  const auto below = std::min(static_cast<size_t>(place), out.size() - 2);
  out[below] = static_cast<double>(below) + 1 - place;
  out[below + 1] = place - static_cast<double>(below);
  return out;
}

TEST(MuZeroLosses, AreAsWrittenByHand) {
  MuZero config;
  config.unroll = 2;
  config.state_size = 4;
  config.support = 3;
  config.value_weight = 0.25;
  const MuZeroModel model(config, world(), kPlainHeads);
  const Params p = random_weights(model, 5);
  const Row observation{0.3, -0.8, 0.5};
  const std::vector<float> actions{1, 0};
  const std::vector<float> policy{0.2F, 0.8F, 0.5F, 0.5F, 0, 0}, values{4, -1.5F, 0},
      rewards{1, -20};
  const std::vector<float> acts{1, 1, 0}, counts{1, 1, 1};
  const auto loss_of = [&](const Params& params) {
    return model.loss(params, {tensor<float>(std::vector<float>{0.3F, -0.8F, 0.5F}, {1, 3}),
                               tensor<float>(actions, {1, 2}), tensor<float>(policy, {1, 3, 2}),
                               tensor<float>(values, {1, 3}), tensor<float>(rewards, {1, 2}),
                               tensor<float>(std::vector<float>{0.75F}, {1}),
                               tensor<float>(acts, {1, 3}), tensor<float>(counts, {1, 3})});
  };
  Row state = from_zero_to_one(layer_of(p, "represent", observation));
  Row reward_logits;
  double policy_loss = 0, value_loss = 0, reward_loss = 0;
  for (size_t k = 0; k <= 2; ++k) {
    const double share = 0.75 * (k == 0 ? 1 : 0.5);
    policy_loss +=
        share * acts[k] *
        cross_entropy_of(layer_of(p, "policy", state), {policy[2 * k], policy[2 * k + 1]});
    value_loss += share * cross_entropy_of(layer_of(p, "value", state), two_hot_of(values[k], 3));
    if (k > 0) {
      reward_loss += share * cross_entropy_of(reward_logits, two_hot_of(rewards[k - 1], 3));
    }
    if (k < 2) {
      Row given = state;
      given.push_back(actions[k] == 0 ? 1 : 0);
      given.push_back(actions[k] == 1 ? 1 : 0);
      reward_logits = layer_of(p, "reward", given);
      const Row moved = layer_of(p, "dynamics", given);
      for (size_t i = 0; i < state.size(); ++i) {
        state[i] += moved[i];
      }
      state = from_zero_to_one(state);
    }
  }
  const Loss loss = loss_of(p);
  EXPECT_NEAR(item(loss.measures[0].second), policy_loss, 2e-5);
  EXPECT_NEAR(item(loss.measures[1].second), value_loss, 2e-5);
  EXPECT_NEAR(item(loss.measures[2].second), reward_loss, 2e-5);
  EXPECT_NEAR(item(loss.loss), policy_loss + 0.25 * value_loss + reward_loss, 2e-5);
}

// What the heads say is the value whose distribution they give, over the scale and back.
TEST(MuZeroModel, ValuesComeBackFromTheirScale) {
  MuZero config;
  config.state_size = 2;
  config.support = 20;
  const MuZeroModel model(config, world(), kPlainHeads);
  Params p = random_weights(model, 9);
  const int64_t atoms = 41;
  for (const char* name : {"value.head.weight"}) {
    p.set(name, zeros({Dtype::kF32, p.find(name)->shape()}));
  }
  for (const double value : {-300.0, -2.5, 0.0, 0.4, 1.0, 17.0, 400.0}) {
    std::vector<float> logits;
    for (const double share : two_hot_of(value, 20)) {
      logits.push_back(static_cast<float>(std::log(share + 1e-30)));
    }
    p.set("value.head.bias", tensor<float>(logits, {atoms}));
    const MuZeroStep said = model.root(p, zeros({Dtype::kF32, {1, kSeenNumbers}}));
    EXPECT_NEAR(item(sum(said.value_n)), value, 2e-3 * std::max(1.0, std::abs(value)));
  }
}

TEST(MuZeroModel, RefusesWhatItCannotPlanFor) {
  const MuZero config;
  EnvSpec boxes = world();
  boxes.action = Space::box(Shape{2}, -1, 1);
  EXPECT_THAT([&] { MuZeroModel(config, boxes, kPlainHeads); },
              ThrowsMessage<ConfigError>(HasSubstr("muzero plans for one agent with discrete")));
  EXPECT_THAT([&] { MuZeroModel(config, world(), {.memory = 4}); },
              ThrowsMessage<ConfigError>(HasSubstr("network.memory")));
}

}  // namespace
}  // namespace mstrain::reinforcement
