#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/mstrain.h"
#include "suites/reinforcement/algorithms/continuous.h"
#include "suites/reinforcement/algorithms/dqn.h"
#include "tests/suites/reinforcement/algorithms/by_hand.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const NetworkConfig kLinear{.hidden = {}};  // heads alone: their numbers can be written down

EnvSpec env(const Space& action) {
  return {.name = "x", .observation = Space::box(Shape{2}, -1, 1), .action = action};
}

// Output `j` of the linear layer at `path`, with weights [in, out].
double head(const Params& p, const std::string& path, const std::vector<double>& x, size_t j) {
  const auto bias = to_vector<float>(*p.find(path + ".head.bias"));
  const auto weight = to_vector<float>(*p.find(path + ".head.weight"));
  double sum = bias[j];
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * weight[i * bias.size() + j];
  }
  return sum;
}

const std::vector<std::vector<double>> kNow{{0.5, -1}, {0.2, 0.8}, {-0.3, 0.1}};
const std::vector<std::vector<double>> kNext{{-0.7, 0.4}, {1, 0}, {0.6, -0.2}};
const std::vector<double> kRewards{1, -2.5, 0.3}, kRest{0.9, 0, 0.81}, kWeights{1, 0.5, 0.25};

Tensor rows(const std::vector<std::vector<double>>& values) {
  std::vector<float> flat;
  for (const auto& row : values) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  const auto n = static_cast<int64_t>(values.size());
  return tensor<float>(flat, {n, static_cast<int64_t>(flat.size()) / n});
}
Tensor column(const std::vector<double>& values) {
  return tensor<float>(std::vector<float>(values.begin(), values.end()),
                       {static_cast<int64_t>(values.size())});
}

OffPolicyBatch batch(const std::vector<std::vector<double>>& actions,
                     const std::vector<std::vector<double>>& noise,
                     const std::vector<std::vector<double>>& next_noise) {
  return {rows(kNow),  rows(actions),    column(kRewards), column(kRest),
          rows(kNext), column(kWeights), rows(noise),      rows(next_noise)};
}

double measure(const OffPolicyLoss& loss, const std::string& name) {
  for (const auto& [key, value] : loss.loss.measures) {
    if (key == name) {
      return item(value);
    }
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(OffPolicyLosses, DqnIsAsWrittenByHand) {
  for (const bool twice : {false, true}) {
    Dqn config;
    config.double_q = twice;
    const auto model = config.model(env(Space::discrete(3)), kLinear);
    const Params p = numbers(model->specs(), 1), target = numbers(model->specs(), 2);
    const std::vector<size_t> taken{2, 0, 1};
    const OffPolicyLoss loss =
        model->loss(p, target, batch({{2}, {0}, {1}}, {{0}, {0}, {0}}, {{0}, {0}, {0}}));
    double expected = 0;
    for (size_t i = 0; i < 3; ++i) {
      size_t best = 0;
      for (size_t j = 1; j < 3; ++j) {
        const Params& by = twice ? p : target;
        best = head(by, "q", kNext[i], j) > head(by, "q", kNext[i], best) ? j : best;
      }
      const double error = head(p, "q", kNow[i], taken[i]) - kRewards[i] -
                           kRest[i] * head(target, "q", kNext[i], best);
      const double size = std::abs(error);
      expected += kWeights[i] * (size <= 1 ? 0.5 * size * size : size - 0.5) / 3;
      EXPECT_NEAR(to_vector<float>(loss.error_b)[i], error, 1e-5);
    }
    EXPECT_NEAR(item(loss.loss.loss), expected, 1e-5);
  }
}

// Atoms of the target, each of which gives its weight to the two places of the support that it lies between.
std::vector<double> projected(const std::vector<double>& next, double reward, double rest,
                              const std::vector<double>& support) {
  std::vector<double> out(support.size());
  const double step = support[1] - support[0];
  for (size_t z = 0; z < support.size(); ++z) {
    const double at = std::clamp(reward + rest * support[z], support.front(), support.back());
    const double place = (at - support.front()) / step;
    const auto below = std::min(static_cast<size_t>(place), support.size() - 2);
    out[below + 1] += next[z] * (place - static_cast<double>(below));
    out[below] += next[z] * (static_cast<double>(below) + 1 - place);
  }
  return out;
}

std::vector<double> distribution(const Params& p, const std::vector<double>& o, size_t action,
                                 size_t atoms) {
  std::vector<double> out;
  double sum = 0;
  for (size_t z = 0; z < atoms; ++z) {
    out.push_back(std::exp(head(p, "q", o, action * atoms + z)));
    sum += out.back();
  }
  for (double& each : out) {
    each /= sum;
  }
  return out;
}

TEST(OffPolicyLosses, C51IsAsWrittenByHand) {
  Dqn config;
  config.atoms = 5;
  config.v_min = -1;
  config.v_max = 1;
  const std::vector<double> support{-1, -0.5, 0, 0.5, 1};
  const auto model = config.model(env(Space::discrete(3)), kLinear);
  const Params p = numbers(model->specs(), 1), target = numbers(model->specs(), 2);
  const std::vector<size_t> taken{2, 0, 1};
  const OffPolicyLoss loss =
      model->loss(p, target, batch({{2}, {0}, {1}}, {{0}, {0}, {0}}, {{0}, {0}, {0}}));
  double expected = 0;
  for (size_t i = 0; i < 3; ++i) {
    size_t best = 0;
    double most = -2;
    for (size_t a = 0; a < 3; ++a) {
      const std::vector<double> by = distribution(p, kNext[i], a, 5);
      const double value = std::inner_product(by.begin(), by.end(), support.begin(), 0.0);
      best = value > most ? a : best;
      most = std::max(most, value);
    }
    const std::vector<double> goal =
        projected(distribution(target, kNext[i], best, 5), kRewards[i], kRest[i], support);
    const std::vector<double> now = distribution(p, kNow[i], taken[i], 5);
    double entropy = 0;
    for (size_t z = 0; z < 5; ++z) {
      entropy -= goal[z] * std::log(now[z]);
    }
    expected += kWeights[i] * entropy / 3;
    EXPECT_NEAR(to_vector<float>(loss.error_b)[i], entropy, 1e-5);
  }
  EXPECT_NEAR(item(loss.loss.loss), expected, 1e-5);
  config.v_max = -1;
  EXPECT_THROW(config.model(env(Space::discrete(3)), kLinear), ConfigError);
}

double critic(const Params& p, size_t i, const std::vector<double>& o, double a) {
  return head(p, "critic." + std::to_string(i), {o[0], o[1], a}, 0);
}

TEST(OffPolicyLosses, Td3IsAsWrittenByHand) {
  Td3 config;
  const auto model = config.model(env(Space::box({-2}, {2})), kLinear);
  const Params p = numbers(model->specs(), 3), target = numbers(model->specs(), 4);
  const std::vector<double> action{0.5, -0.9, 0.1}, noise{0.4, -4, 1};
  const OffPolicyLoss loss =
      model->loss(p, target, batch({{0.5}, {-0.9}, {0.1}}, {{0}, {0}, {0}}, {{0.4}, {-4}, {1}}));
  double critics = 0, actor = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double next = std::clamp(
        std::tanh(head(target, "actor", kNext[i], 0)) + std::clamp(0.2 * noise[i], -0.5, 0.5), -1.0,
        1.0);
    const double y = kRewards[i] + kRest[i] * std::min(critic(target, 0, kNext[i], next),
                                                       critic(target, 1, kNext[i], next));
    for (const size_t c : {0, 1}) {
      const double error = critic(p, c, kNow[i], action[i]) - y;
      critics += kWeights[i] * error * error / 3;
    }
    actor -= critic(p, 0, kNow[i], std::tanh(head(p, "actor", kNow[i], 0))) / 3;
  }
  EXPECT_NEAR(measure(loss, "critic_loss"), critics, 1e-5);
  EXPECT_NEAR(measure(loss, "actor_loss"), actor, 1e-5);
  EXPECT_NEAR(item(loss.loss.loss), critics + actor, 1e-5);
}

TEST(OffPolicyLosses, SacIsAsWrittenByHand) {
  Sac config;
  const auto model = config.model(env(Space::box({-2}, {2})), kLinear);
  const Params p = numbers(model->specs(), 5), target = numbers(model->specs(), 6);
  const std::vector<double> action{0.5, -0.9, 0.1}, noise{0.4, -1.5, 1}, next_noise{-0.2, 0.7, 2};
  const OffPolicyLoss loss = model->loss(
      p, target, batch({{0.5}, {-0.9}, {0.1}}, {{0.4}, {-1.5}, {1}}, {{-0.2}, {0.7}, {2}}));
  // tanh of a normal, and its log density by the change of variables.
  const auto draw = [&](const std::vector<double>& o, double z) {
    const double log_std = head(p, "actor", o, 1);
    const double u = head(p, "actor", o, 0) + std::exp(log_std) * z;
    const double a = std::tanh(u);
    return std::pair(a, -0.5 * z * z - log_std - 0.5 * std::log(2 * M_PI) - std::log(1 - a * a));
  };
  const double log_temperature = to_vector<float>(*p.find("log_temperature"))[0];
  const double temperature = std::exp(log_temperature);
  double critics = 0, actor = 0, log_probs = 0;
  for (size_t i = 0; i < 3; ++i) {
    const auto [next, next_log_prob] = draw(kNext[i], next_noise[i]);
    const double y = kRewards[i] + kRest[i] * (std::min(critic(target, 0, kNext[i], next),
                                                        critic(target, 1, kNext[i], next)) -
                                               temperature * next_log_prob);
    for (const size_t c : {0, 1}) {
      const double error = critic(p, c, kNow[i], action[i]) - y;
      critics += kWeights[i] * error * error / 3;
    }
    const auto [now, log_prob] = draw(kNow[i], noise[i]);
    actor += (temperature * log_prob -
              std::min(critic(p, 0, kNow[i], now), critic(p, 1, kNow[i], now))) /
             3;
    log_probs += log_prob / 3;
  }
  EXPECT_NEAR(measure(loss, "critic_loss"), critics, 1e-4);
  EXPECT_NEAR(measure(loss, "actor_loss"), actor, 1e-5);
  EXPECT_NEAR(item(loss.loss.loss), critics + actor - log_temperature * (log_probs - 1), 1e-4);
}

// The critic learns from targets, not the actor from them, nor the critic from the actor's wish.
TEST(OffPolicyLosses, GradientsReachOnlyWhatIsToLearn) {
  Td3 config;
  const auto model = config.model(env(Space::box({-2}, {2})), kLinear);
  const Params p = numbers(model->specs(), 3), target = numbers(model->specs(), 4);
  const OffPolicyBatch steps = batch({{0.5}, {-0.9}, {0.1}}, {{0}, {0}, {0}}, {{0.4}, {-4}, {1}});
  const auto part = [&](const std::string& name) {
    return grad([&](const Params& q) {
      const OffPolicyLoss loss = model->loss(q, target, steps);
      for (const auto& [key, value] : loss.loss.measures) {
        if (key == name) {
          return value;
        }
      }
      throw Error(name);
    })(p);
  };
  const auto is_zero = [](const Params& gradients, const std::string& folder) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      for (const float each : to_vector<float>(gradients.tensor(i))) {
        if (gradients.name(i).starts_with(folder) && each != 0) {
          return false;
        }
      }
    }
    return true;
  };
  EXPECT_TRUE(is_zero(part("critic_loss"), "actor"));
  EXPECT_FALSE(is_zero(part("critic_loss"), "critic"));
  EXPECT_TRUE(is_zero(part("actor_loss"), "critic"));
  EXPECT_FALSE(is_zero(part("actor_loss"), "actor"));
}

TEST(OffPolicyLosses, RefuseActionsThatTheyCannotChoose) {
  EXPECT_THAT([] { Dqn().model(env(Space::box({-2}, {2})), kLinear); },
              ThrowsMessage<ConfigError>(HasSubstr("sac, td3 and ddpg act in boxes")));
  Sac sac;
  EXPECT_THAT([&] { sac.model(env(Space::discrete(2)), kLinear); },
              ThrowsMessage<ConfigError>(HasSubstr("dqn chooses of some")));
  EXPECT_THAT([&] { sac.model(env(Space::box(Shape{2}, -1, INFINITY)), kLinear); },
              ThrowsMessage<ConfigError>(HasSubstr("boxes with bounds")));
}

}  // namespace
}  // namespace mstrain::reinforcement
