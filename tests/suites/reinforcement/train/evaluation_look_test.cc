#include "suites/reinforcement/train/evaluation_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/base/base64.h"
#include "core/train/report_data.h"
#include "suites/reinforcement/env/one_environment.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kDiscount = 0.9;

// Pays what is done, for ten steps.
struct TenSteps {
  int64_t taken = 0;

  static EnvSpec spec() {
    return {.name = "ten_steps",
            .about = "pays what is done",
            .observation = Space::box({0}, {10}),
            .action = Space::box({-1, -kFar}, {1, kFar}),
            .state_size = 1,
            .time_limit = 100};
  }
  void begin(EnvRandom&) { taken = 0; }
  bool step(std::span<const double> actions, EnvRandom&, std::span<float> rewards) {
    rewards[0] = static_cast<float>(actions[0]);
    return ++taken == 10;
  }
  void observe(std::span<float> out) const { out[0] = static_cast<float>(taken); }
  void get_state(std::span<double> out) const { out[0] = static_cast<double>(taken); }
  void set_state(std::span<const double> state) { taken = whole_state(state, 0, 0, 9); }

  static constexpr double kFar = std::numeric_limits<double>::infinity();
};

// Does 1/2 and what it sees, and takes it to be worth what comes of it, and `error` more with each step.
class Known final : public Player {
 public:
  explicit Known(double error) : error_(error) {}
  void act(std::span<const float> seen, std::span<const uint8_t>, std::span<float> actions,
           std::span<float> values) override {
    for (size_t row = 0; row < seen.size(); ++row) {
      actions[2 * row] = 0.5F;
      actions[2 * row + 1] = seen[row];
      const double left = 10 - seen[row];
      values[row] = static_cast<float>(0.5 * (1 - std::pow(kDiscount, left)) / (1 - kDiscount) +
                                       error_ * seen[row]);
    }
  }

 private:
  double error_;
};

OrderedJson looked(double error, const EnvConfig& given = {},
                   std::optional<double> discount = kDiscount) {
  [[maybe_unused]] static const bool kKnown = (add_environment<TenSteps>(), true);
  EnvConfig config = given;
  config.name = "ten_steps";
  Known player(error);
  EvaluationLook look(discount);
  const std::atomic<bool> stop = false;
  const auto found = evaluate(config, 3, 1, player, nullptr, stop, &look);
  EXPECT_EQ(found->mean_return(), 0.5 * found->mean_length());
  return look.row();
}

bool agree(const OrderedJson& values) {
  for (size_t bin = 0; bin < values["value"].size(); ++bin) {
    const double value = values["value"][bin].get<double>();
    if (std::abs(value - values["return"][bin].get<double>()) > 1e-3) {
      return false;
    }
  }
  return true;
}

TEST(EvaluationLook, ComparesValuesWithWhatCameOfThem) {
  const OrderedJson exact = looked(0)["values"];
  EXPECT_EQ(exact["count"], 30);
  EXPECT_NEAR(exact["explained"].get<double>(), 1, 1e-6);
  ASSERT_EQ(exact["value"].size(), 20U);
  EXPECT_TRUE(agree(exact));
  EXPECT_EQ(exact["value"].front(), 0.5);
  const OrderedJson off = looked(1)["values"];
  EXPECT_LT(off["explained"].get<double>(), 0.5);
  EXPECT_FALSE(agree(off));
}

// Behind a truncated episode is what its last step was taken to be worth; rewards are those that training has.
TEST(EvaluationLook, FollowsATruncatedEpisodeByItsLastValue) {
  const OrderedJson cut = looked(0, {.time_limit = AutoOr<int64_t>(4)})["values"];
  EXPECT_EQ(cut["count"], 9);
  EXPECT_TRUE(agree(cut));
  const OrderedJson scaled = looked(0, {.scale_rewards = 4})["values"];
  EXPECT_NEAR(scaled["return"].back().get<double>(), 4 * scaled["value"].back().get<double>(),
              1e-3);
}

TEST(EvaluationLook, ComparesNothingWhereRewardsAreNotKnown) {
  const OrderedJson row = looked(0, {}, std::nullopt);
  EXPECT_FALSE(row.contains("values"));
  EXPECT_TRUE(row.contains("actions"));
}

TEST(EvaluationLook, CountsActionsAndKeepsSomeMoments) {
  const OrderedJson row = looked(0);
  const OrderedJson& actions = row["actions"];
  EXPECT_EQ(actions["numbers"], 2);
  EXPECT_EQ(actions["low"], OrderedJson({-1.0, 0.0}));  // what was done where there are no bounds
  EXPECT_EQ(actions["high"], OrderedJson({1.0, 9.0}));
  EXPECT_EQ(actions["counts"][0][15], 30);
  for (const OrderedJson& counts : actions["counts"]) {
    const auto all = counts.get<std::vector<int64_t>>();
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t{0}), 30);
  }
  EXPECT_EQ(row["at"], OrderedJson({0, 1, 3, 5, 7, 9}));
  EXPECT_EQ(row["strip"].get<std::string>().substr(0, 5), "iVBOR");  // a PNG's first bytes
}

TEST(EvaluationLook, LooksAtFewOfMany) {
  int64_t looked_at = 0;
  for (int64_t number = 0; number < 100000; ++number) {
    looked_at += is_looked_at(number) ? 1 : 0;
    EXPECT_EQ(looked_at, number < 16 ? number + 1 : looked_at);
  }
  EXPECT_GT(looked_at, 80);
  EXPECT_LT(looked_at, 130);
}

// Every algorithm says what it takes its actions to be worth, and is looked at, of one agent or of several.
TEST(EvaluationLook, IsPartOfEveryRun) {
  const TemporaryFolder folder;
  const std::string off = ", buffer_size: 200, learning_starts: 32, batch_size: 16}\n";
  const std::pair<std::string, std::string> kinds[] = {
      {"{type: ppo, steps: 16}\n", "{name: cartpole, num_envs: 4}\n"},
      {"{type: a2c, steps: 16}\n", "{name: pendulum, num_envs: 4, normalize_rewards: true}\n"},
      {"{type: impala, steps: 16}\n", "{name: spread, num_envs: 4, team_view: true}\n"},
      {"{type: dqn" + off, "{name: key_door, num_envs: 4}\n"},
      {"{type: qmix" + off, "{name: two_step_game, num_envs: 4}\n"},
      {"{type: qmix, mixer: none" + off, "{name: spread, num_envs: 4}\n"},
      {"{type: sac" + off, "{name: pendulum, num_envs: 4}\n"},
      {"{type: td3" + off, "{name: mountain_car_continuous, num_envs: 4, time_limit: 50}\n"},
      {"{type: muzero, simulations: 4, state_size: 8, support: 5, learning_starts: 64, batch_size: "
       "8}\n",
       "{name: 2048, num_envs: 4}\n"}};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    const auto& [algorithm, environment] = kinds[i];
    const std::string directory = folder / std::to_string(i);
    run_agent("algorithm: " + algorithm + "environment: " + environment +
                  "network: {hidden: [16]}\noptimizer: {lr: 1.0e-3}\n"
                  "schedule: {total_env_steps: 256}\neval: {interval: 128, episodes: 3}\n"
                  "log: {interval: 64}\n",
              directory);
    const OrderedJson data = run_data(real_files(), directory);
    EXPECT_EQ(data["evaluations"].size(), 2U) << algorithm;
    EXPECT_GT(data["parts"].size(), 0U) << algorithm;
    for (const OrderedJson& look : data["evaluations"]) {
      EXPECT_FALSE(look["strip"].get<std::string>().empty()) << algorithm;
      EXPECT_LT(look.dump().size(), 100000U) << algorithm;
      ASSERT_TRUE(look.contains("actions") && look.contains("values")) << algorithm;
      const auto values = look["values"]["value"].get<std::vector<double>>();
      EXPECT_NE(values.front(), 0) << algorithm << look["values"];
    }
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
