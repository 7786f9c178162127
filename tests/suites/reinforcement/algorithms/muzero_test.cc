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

Row one_hot_of(size_t which, size_t n) {
  Row out(n);
  out[which] = 1;
  return out;
}

Row joined(std::initializer_list<Row> parts) {
  Row out;
  for (const Row& part : parts) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

Row moved_by(const Params& p, const std::string& path, const Row& state, const Row& taken) {
  Row out = layer_of(p, path, joined({state, taken}));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] += state[i];
  }
  return from_zero_to_one(out);
}

// Shares of codes, of all rows at once: logits are set against those of the other rows.
std::vector<Row> shares_of(const Params& p, const std::vector<Row>& given) {
  std::vector<Row> out;
  for (const Row& row : given) {
    out.push_back(layer_of(p, "encode", row));
  }
  for (size_t code = 0; code < out[0].size(); ++code) {
    double mean = 0, square = 0;
    for (const Row& row : out) {
      mean += row[code] / static_cast<double>(out.size());
    }
    for (const Row& row : out) {
      square += (row[code] - mean) * (row[code] - mean) / static_cast<double>(out.size());
    }
    for (Row& row : out) {
      row[code] = (row[code] - mean) / std::sqrt(square + 1e-5);
    }
  }
  for (Row& row : out) {
    double sum = 0;
    for (double& each : row) {
      each = std::exp(each);
      sum += each;
    }
    for (double& each : row) {
      each /= sum;
    }
  }
  return out;
}

MuZero with_chance() {
  MuZero config;
  config.unroll = 2;
  config.state_size = 4;
  config.support = 3;
  config.value_weight = 0.25;
  config.chance_codes = 3;
  config.commitment = 0.5;
  return config;
}

// Three rows of two actions; the last one's episode ends with its second action.
class MuZeroChance : public testing::Test {
 protected:
  static constexpr size_t kRows = 3, kSteps = 2, kCodes = 3;

  MuZeroBatch batch() const {
    MuZeroBatch out{tensor<float>(flat(seen_, 0, 1), {kRows, kSeenNumbers}),
                    tensor<float>(std::vector<float>{1, 0, 0, 0, 1, 1}, {kRows, kSteps}),
                    tensor<float>(policies_, {kRows, kSteps + 1, kMoves}),
                    tensor<float>(values_, {kRows, kSteps + 1}),
                    tensor<float>(rewards_, {kRows, kSteps}),
                    tensor<float>(weights_, {kRows}),
                    tensor<float>(acts_, {kRows, kSteps + 1}),
                    tensor<float>(counts_, {kRows, kSteps + 1})};
    out.following_bko = tensor<float>(flat(seen_, 1, kSteps + 1), {kRows, kSteps, kSeenNumbers});
    return out;
  }
  static std::vector<float> flat(const std::vector<std::vector<Row>>& rows, size_t from,
                                 size_t to) {
    std::vector<float> out;
    for (const auto& row : rows) {
      for (size_t k = from; k < to; ++k) {
        out.insert(out.end(), row[k].begin(), row[k].end());
      }
    }
    return out;
  }

  const MuZero config_ = with_chance();
  const MuZeroModel model_{config_, world(), kPlainHeads};
  const Params p_ = random_weights(model_, 5);
  const std::vector<std::vector<Row>> seen_{{{0.3, -0.8, 0.5}, {0.9, 0.1, -0.4}, {-0.2, 0.6, 0.7}},
                                            {{-0.5, 0.2, 0.1}, {0.4, -0.9, 0.8}, {0.3, 0.3, -0.6}},
                                            {{0.7, 0.7, -0.1}, {-0.6, -0.3, 0.2}, {0, 0, 0}}};
  const std::vector<size_t> actions_{1, 0, 0, 0, 1, 1};
  const std::vector<float> policies_{0.2F, 0.8F, 0.5F, 0.5F, 0.9F, 0.1F, 1,    0, 0.3F,
                                     0.7F, 0.6F, 0.4F, 0.1F, 0.9F, 0.5F, 0.5F, 0, 0},
      values_{4, -1.5F, 0.3F, 1, 2, 3, -2, 0.5F, 0}, rewards_{1, -20, 0.5F, 0, 2, 1},
      weights_{0.75F, 1, 0.5F}, acts_{1, 1, 1, 1, 1, 0, 1, 1, 0},
      counts_{1, 1, 1, 1, 1, 0, 1, 1, 1};
};

TEST_F(MuZeroChance, LossesAreAsWrittenByHand) {
  std::vector<Row> states;
  for (const auto& row : seen_) {
    states.push_back(from_zero_to_one(layer_of(p_, "represent", row[0])));
  }
  double policy = 0, value = 0, reward = 0, after_value = 0, chance = 0, commitment = 0;
  for (size_t k = 0; k <= kSteps; ++k) {
    const double share = (k == 0 ? 1 : 0.5) / static_cast<double>(kRows);
    for (size_t b = 0; b < kRows; ++b) {
      const size_t at = b * (kSteps + 1) + k;
      policy += share * weights_[b] * acts_[at] *
                cross_entropy_of(layer_of(p_, "policy", states[b]),
                                 {policies_[2 * at], policies_[2 * at + 1]});
      value += share * weights_[b] * counts_[at] *
               cross_entropy_of(layer_of(p_, "value", states[b]), two_hot_of(values_[at], 3));
    }
    if (k == kSteps) {
      break;
    }
    std::vector<Row> changes;
    for (size_t b = 0; b < kRows; ++b) {
      changes.push_back(
          joined({seen_[b][k], one_hot_of(actions_[b * kSteps + k], kMoves), seen_[b][k + 1]}));
    }
    const std::vector<Row> shares = shares_of(p_, changes);
    for (size_t b = 0; b < kRows; ++b) {
      const size_t at = b * (kSteps + 1) + k;
      const double here = 0.5 / kRows * weights_[b] * counts_[at];
      const double then = 0.5 / kRows * weights_[b] * counts_[at + 1];
      const auto top = std::max_element(shares[b].begin(), shares[b].end());
      const Row code = one_hot_of(static_cast<size_t>(top - shares[b].begin()), kCodes);
      const Row after =
          moved_by(p_, "afterstate", states[b], one_hot_of(actions_[b * kSteps + k], kMoves));
      after_value += here * cross_entropy_of(layer_of(p_, "afterstate_value", after),
                                             two_hot_of(values_[at], 3));
      chance += then * cross_entropy_of(layer_of(p_, "chance", after), code);
      for (size_t i = 0; i < kCodes; ++i) {
        commitment += then * (code[i] - shares[b][i]) * (code[i] - shares[b][i]);
      }
      reward += then * cross_entropy_of(layer_of(p_, "reward", joined({after, code})),
                                        two_hot_of(rewards_[b * kSteps + k], 3));
      states[b] = moved_by(p_, "dynamics", after, code);
    }
  }
  const Loss loss = model_.loss(p_, batch());
  const std::vector<std::pair<std::string, double>> expected{
      {"policy_loss", policy},          {"value_loss", value},   {"reward_loss", reward},
      {"afterstate_loss", after_value}, {"chance_loss", chance}, {"commitment_loss", commitment}};
  ASSERT_EQ(loss.measures.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(loss.measures[i].first, expected[i].first);
    EXPECT_NEAR(item(loss.measures[i].second), expected[i].second, 2e-5) << expected[i].first;
  }
  EXPECT_NEAR(item(loss.loss),
              policy + reward + 0.25 * (value + after_value) + chance + 0.5 * commitment, 5e-5);
}

// The encoder learns from what its codes are good for, not from the commitment alone.
TEST_F(MuZeroChance, CodesLearnFromWhatFollowsThem) {
  MuZero config = config_;
  config.commitment = 0;
  const MuZeroModel model(config, world(), kPlainHeads);
  const Params gradient = grad([&](const Params& p) { return model.loss(p, batch()).loss; })(p_);
  EXPECT_GT(item(max(abs(*gradient.find("encode.head.weight")))), 1e-5);
}

// A search asks for both kinds of steps at once; each row is what it is alone.
TEST_F(MuZeroChance, StepsOfActionsAndOfCodesShareABatch) {
  const Tensor state =
      model_.root(p_, tensor<float>(flat(seen_, 0, 1), {kRows, kSeenNumbers})).state_ns;
  const std::vector<float> taken{1, 0, kMoves + 2};
  const MuZeroStep both = model_.step(p_, state, tensor<float>(taken, {kRows}));
  const Row states = to_doubles(both.state_ns), logits = to_doubles(both.logits_na),
            before = to_doubles(state);
  for (size_t b = 0; b < kRows; ++b) {
    const bool is_code = taken[b] >= kMoves;
    const Row own(before.begin() + static_cast<int64_t>(4 * b),
                  before.begin() + static_cast<int64_t>(4 * b + 4));
    const auto number = static_cast<size_t>(taken[b]);
    const Row expected = is_code
                             ? moved_by(p_, "dynamics", own, one_hot_of(number - kMoves, kCodes))
                             : moved_by(p_, "afterstate", own, one_hot_of(number, kMoves));
    const Row said = layer_of(p_, is_code ? "policy" : "chance", expected);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(states[4 * b + i], expected[i], 1e-5) << b;
    }
    for (size_t i = 0; i < said.size(); ++i) {
      EXPECT_NEAR(logits[(kMoves + kCodes) * b + (is_code ? 0 : kMoves) + i], said[i], 1e-5) << b;
    }
  }
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
