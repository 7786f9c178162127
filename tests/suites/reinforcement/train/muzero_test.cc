#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/base/error.h"
#include "suites/reinforcement/env/one_environment.h"
#include "suites/reinforcement/train/searched_steps.h"
#include "tests/amount.h"
#include "tests/suites/reinforcement/train/runs.h"

#include "core/mstrain.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kSmallMuZero =
    "algorithm: {type: muzero, simulations: 4, unroll: 3, n_step: 4, state_size: 8, support: 5, "
    "buffer_size: 400, learning_starts: 64, batch_size: 8, spread: 0.5, target_rate: 0.1}\n"
    "environment: {name: cartpole, num_envs: 4}\n"
    "network: {hidden: [16], activation: relu}\n"
    "optimizer: {type: adam, lr: 1.0e-3}\n"
    "schedule: {total_env_steps: 640}\n"
    "checkpoint: {interval: 128}\n"
    "eval: {interval: 256, episodes: 3}\n"
    "log: {interval: 64}\n";

// A game with chance whose moves are not always legal.
const std::vector<std::string> kChance{"environment.name=2048", "algorithm.chance_codes=4"};

class MuZeroRun : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(MuZeroRun, StopsWhenAskedToAndGoesOnBitForBit) {
  const std::atomic<bool> stop = true;
  for (const std::vector<std::string>& changes :
       {kChance, {"algorithm.prioritised=true"}, std::vector<std::string>{}}) {
    for (const char* name : {"straight", "stopped"}) {
      real_files().remove_all(folder_ / name);
    }
    run_agent(kSmallMuZero, folder_ / "straight", changes);
    const RunOutcome stopped =
        run_agent(kSmallMuZero, folder_ / "stopped", changes, real_files(), &stop);
    EXPECT_EQ(stopped.outcome, Outcome::kInterrupted);
    // Beyond the checkpoint, where there are steps to learn from, and again.
    auto half = changes;
    half.push_back("schedule.total_env_steps=300");
    run_agent(kSmallMuZero, folder_ / "stopped", half);
    run_agent(kSmallMuZero, folder_ / "stopped", changes);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(checkpoint_file(folder_ / "straight", file) ==
                  checkpoint_file(folder_ / "stopped", file))
          << file << " " << testing::PrintToString(changes);
    }
  }
  const std::vector<Json> rows =
      read_metrics(real_files(), join_path(folder_ / "straight", kMetricsFile));
  for (const char* key : {"loss", "policy_loss", "value_loss", "reward_loss", "grad_norm", "lr"}) {
    EXPECT_TRUE(rows.back().contains(key) || rows[rows.size() - 2].contains(key)) << key;
  }
}

TEST_F(MuZeroRun, IsTheSameWithServersOfEnvironments) {
  for (const auto& changes : {std::vector<std::string>{}, kChance}) {
    const std::string name = changes.empty() ? "" : "_chance";
    run_agent(kSmallMuZero, folder_ / ("single" + name), changes);
    for (const std::string policy : {"single_learner_fine", "env_servers"}) {
      auto placed = changes;
      placed.insert(placed.end(), {"distribution.policy=" + policy, "distribution.actors=2"});
      run_agent(kSmallMuZero, folder_ / (policy + name), placed);
      for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
        EXPECT_TRUE(checkpoint_file(folder_ / (policy + name), file) ==
                    checkpoint_file(folder_ / ("single" + name), file))
            << policy << name << " " << file;
      }
    }
  }
}

// Wait for 0.5, or throw a coin that is shown, and then guess it: 1 for the right guess, else -1. Who knows that the coin will be
// seen throws it and has 1; who takes chance for a mean believes that a guess is worth 0.
struct ShownCoin {
  static EnvSpec spec() {
    return {.name = "shown_coin",
            .observation = Space::box(Shape{3}, 0, 1),
            .action = Space::discrete(2),
            .state_size = 1};
  }
  void begin(EnvRandom&) { place_ = 0; }
  bool step(std::span<const int64_t> actions, EnvRandom& random, std::span<float> rewards) {
    if (place_ == 0 && actions[0] == 0) {
      rewards[0] = 0.5F;
      return true;
    }
    if (place_ == 0) {
      place_ = random.uniform() < 0.5 ? 1 : 2;
      return false;
    }
    rewards[0] = actions[0] == place_ - 1 ? 1 : -1;
    return true;
  }
  void observe(std::span<float> out) const {
    std::ranges::fill(out, 0.0F);
    out[static_cast<size_t>(place_)] = 1;
  }
  void get_state(std::span<double> out) const { out[0] = static_cast<double>(place_); }
  void set_state(std::span<const double> state) { place_ = static_cast<int64_t>(state[0]); }

  int64_t place_ = 0;  // 1, 2: the sides of the coin
};

TEST_F(MuZeroRun, PlansForWhatChanceWillShow) {
  if (kSanitized) {
    GTEST_SKIP() << "whole runs: the plain build counts them";
  }
  [[maybe_unused]] static const bool kKnown = (add_environment<ShownCoin>(), true);
  const auto reached = [&](int64_t codes, int64_t seed) {
    const std::string folder = folder_ / fmt::format("{}_{}", codes, seed);
    run_agent(
        "algorithm: {type: muzero, simulations: 16, unroll: 2, n_step: 2, discount: 1, "
        "state_size: 16, support: 5, spread: 0.5, buffer_size: 20000, learning_starts: 4000, "
        "updates: 4, "
        "batch_size: 64}\n"
        "environment: {name: shown_coin, num_envs: 16}\n"
        "network: {hidden: [32], activation: relu}\n"
        "optimizer: {type: adam, lr: 3.0e-3}\n"
        "schedule: {total_env_steps: 16000}\n"
        "eval: {interval: 16000, episodes: 64}\n",
        folder,
        {fmt::format("algorithm.chance_codes={}", codes), fmt::format("run.seed={}", seed)});
    return read_metrics(real_files(), join_path(folder, kMetricsFile))
        .back()
        .at("eval_return")
        .get<double>();
  };
  for (const int64_t seed : {1, 2, 3}) {
    EXPECT_EQ(reached(8, seed), 1) << seed;
    EXPECT_EQ(reached(0, seed), 0.5) << seed;
  }
}

TEST_F(MuZeroRun, PlaysWithWeightsThatFollowThoseThatLearn) {
  for (const char* rate : {"1", "0.1"}) {
    const std::string folder = folder_ / rate;
    run_agent(kSmallMuZero, folder, {std::string("algorithm.target_rate=") + rate});
    const std::string model = checkpoint_file(folder, "model.safetensors");
    const std::string optimizer = checkpoint_file(folder, "optimizer.safetensors");
    const SafetensorsFile playing(std::as_bytes(std::span(model)), "model");
    const SafetensorsFile learning(std::as_bytes(std::span(optimizer)), "optimizer");
    for (const TensorEntry& entry : playing.entries()) {
      const bool same = std::ranges::equal(playing.data(entry),
                                           learning.data(learning.at("latest." + entry.name)));
      EXPECT_EQ(same, rate == std::string("1")) << entry.name;
    }
  }
}

TEST_F(MuZeroRun, RefusesWhatCannotBe) {
  const auto fails = [&](std::vector<std::string> changes, const std::string& message) {
    EXPECT_THAT([&] { run_agent(kSmallMuZero, folder_ / "bad", changes); },
                ThrowsMessage<ConfigError>(HasSubstr(message)))
        << message;
  };
  fails({"environment.name=pendulum"}, "muzero plans for one agent with discrete actions");
  fails({"environment.name=spread"}, "muzero plans for one agent");
  fails({"environment.name=tic_tac_toe"}, "muzero those of one player");
  fails({"algorithm.chance_codes=-1"}, "algorithm.chance_codes");
  fails({"algorithm.buffer_size=16"}, "expected at least 32");
  fails({"distribution.policy=multi_learner", "distribution.actors=2"}, "expected single");
  fails({"algorithm.priority_exponent=3"}, "algorithm.priority_exponent");
  EXPECT_THAT([&] { run_agent(kSmallMuZero, folder_ / "wide", {"optimizer.lr=1e30"}); },
              ThrowsMessage<Error>(HasSubstr("the run diverged")));
}

TEST_F(MuZeroRun, PlansItsWayToBalance) {
  if (kSanitized) {
    GTEST_SKIP() << "a whole run: the plain build counts it";
  }
  const RunOutcome done =
      run_agent(real_files().read(join_path(MSTRAIN_SOURCE_DIR, "configs/muzero_cartpole.yaml")),
                folder_ / "run", {"eval.stop_at_return=150"});
  EXPECT_THAT(done.out, HasSubstr("eval.stop_at_return is reached"));
}

const EnvSpec kTwoMoves{.name = "two moves",
                        .observation = Space::box(Shape{1}, 0, 100),
                        .action = Space::discrete(2),
                        .masks = true};

// Two rows; the second one's episode ends by itself at step 2 and by the limit at step 5.
class SearchedStepsOfTwo : public testing::Test {
 protected:
  SearchedStepsOfTwo()
      : steps_((config_.unroll = 2, config_.n_step = 3, config_.discount = 0.5,
                config_.buffer_size = 16, config_),
               2, kTwoMoves) {
    for (int64_t t = 0; t < 8; ++t) {
      add(t);
    }
  }
  void add(int64_t t) { add(t, steps_); }
  static void add(int64_t t, SearchedSteps& steps) {
    const auto x = static_cast<float>(t);
    const std::vector<float> seen{x, 10 + x}, actions{static_cast<float>(t % 2), 1},
        policies{0.5F, 0.5F, x, 1 - x}, values{100 + x, 200 + x}, rewards{1, 2}, last{-1, 50};
    const std::vector<uint8_t> terminated{0, t == 2 ? uint8_t{1} : uint8_t{0}},
        truncated{0, t == 5 ? uint8_t{1} : uint8_t{0}};
    const std::vector<uint8_t> legal{1, t % 2 == 0 ? uint8_t{1} : uint8_t{0}, 0, 1};
    steps.add({.observations = seen,
               .legal = legal,
               .policies = policies,
               .values = values,
               .actions = actions,
               .rewards = rewards,
               .terminated = terminated,
               .truncated = truncated,
               .last_values = last});
  }
  MuZero config_;
  SearchedSteps steps_;
};

// Errors of values, by hand: of the first row |100 + t - (1.75 + (103 + t) / 8)|, of the second by the ends of its episodes.
TEST_F(SearchedStepsOfTwo, AreDrawnByHowFarTheirValuesWere) {
  config_.prioritised = true;
  config_.priority_exponent = 1;
  config_.importance = 0.5;
  SearchedSteps steps(config_, 2, kTwoMoves);
  for (int64_t t = 0; t < 11; ++t) {
    add(t, steps);
  }
  std::map<float, double> errors;  // by observation
  for (int t = 3; t < 6; ++t) {
    const auto x = static_cast<float>(t);
    errors[x] = std::abs(100 + x - (1.75 + (103 + x) / 8));
    // Two, or one, or no steps to the limit behind step 5, beyond which the value is 50.
    const double following = t == 3   ? 2 + 1 + 0.5 + 50.0 / 8
                             : t == 4 ? 2 + 1 + 50.0 / 4
                                      : 2 + 50.0 / 2;
    errors[10 + x] = std::abs(200 + x - following);
  }
  // What a new search finds is judged anew, and what cannot be drawn yet is not.
  const std::vector<int64_t> places{4 % 8 * 2, 9 % 8 * 2};
  steps.refresh(places, std::vector<float>(4, 0.5F), std::vector<float>{20, 20});
  errors[4] = std::abs(20 - (1.75 + 107.0 / 8));
  double total = 0;
  for (const auto& [seen, error] : errors) {
    total += error;
  }
  std::map<float, double> found;
  constexpr int kDraws = 200;
  constexpr int64_t kBatch = 64;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const MuZeroBatch batch = steps.sample(kBatch, 1, draw);
    const auto seen = to_vector<float>(batch.observation_bo),
               weight = to_vector<float>(batch.weight_b);
    float heaviest = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      found[seen[i]] += 1.0 / (kDraws * kBatch);
      heaviest = std::max(heaviest, weight[i]);
      EXPECT_NEAR(weight[i] / weight[0], std::sqrt(errors.at(seen[0]) / errors.at(seen[i])), 1e-3);
    }
    EXPECT_EQ(heaviest, 1);
  }
  EXPECT_EQ(found.size(), errors.size());
  for (const auto& [seen, error] : errors) {
    EXPECT_NEAR(found[seen], error / total, 0.015) << seen;
  }
}

TEST_F(SearchedStepsOfTwo, GiveSequencesWithTargetsWithinTheirEpisode) {
  EXPECT_EQ(steps_.size(), 2 * (8 - 2 - 3));
  const MuZeroBatch batch = steps_.sample(64, 1, 0);
  const auto seen = to_vector<float>(batch.observation_bo),
             value = to_vector<float>(batch.value_bk), reward = to_vector<float>(batch.reward_bk),
             acts = to_vector<float>(batch.acts_bk), counts = to_vector<float>(batch.counts_bk),
             policy = to_vector<float>(batch.policy_bka);
  int found = 0;
  for (size_t i = 0; i < 64; ++i) {
    if (seen[i] < 10) {  // the first row, without an end
      const float t = seen[i];
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_FLOAT_EQ(value[i * 3 + k],
                        1 + 0.5F + 0.25F + 0.125F * (100 + t + static_cast<float>(k) + 3));
        EXPECT_EQ(acts[i * 3 + k] + counts[i * 3 + k], 2);
      }
      EXPECT_EQ(reward[i * 2] + reward[i * 2 + 1], 2);
    } else if (seen[i] == 11) {  // steps 1 and 2, then nothing
      ++found;
      EXPECT_FLOAT_EQ(value[i * 3], 2 + 1);
      EXPECT_FLOAT_EQ(value[i * 3 + 1], 2);
      EXPECT_EQ(value[i * 3 + 2], 0);
      EXPECT_EQ(reward[i * 2 + 1], 2);
      EXPECT_EQ(acts[i * 3 + 2], 0);
      EXPECT_EQ(counts[i * 3 + 2], 1);
      EXPECT_EQ(policy[i * 6 + 2], 2);  // of the search at step 2
    } else if (seen[i] == 12) {         // beyond the end rewards are 0
      EXPECT_EQ(reward[i * 2 + 1], 0);
      EXPECT_EQ(counts[i * 3 + 1] + counts[i * 3 + 2], 2);
    }
  }
  EXPECT_GT(found, 0);
  for (int64_t t = 8; t < 11; ++t) {
    add(t);  // the ring goes around: steps 3 to 10 are kept
  }
  const MuZeroBatch later = steps_.sample(64, 1, 1);
  const auto starts = to_vector<float>(later.observation_bo),
             targets = to_vector<float>(later.value_bk), known = to_vector<float>(later.counts_bk);
  found = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_GE(std::fmod(starts[i], 10.0F), 3);
    if (starts[i] == 14) {  // steps 4 and 5, then nothing is known
      ++found;
      EXPECT_FLOAT_EQ(targets[i * 3], 2 + 1 + 0.25F * 50);
      EXPECT_EQ(known[i * 3] + known[i * 3 + 1], 2);
      EXPECT_EQ(known[i * 3 + 2], 0);
    }
  }
  EXPECT_GT(found, 0);
}

TEST_F(SearchedStepsOfTwo, AreRefreshedWhereTheyWereSearchedAgain) {
  const std::vector<int64_t> places = steps_.draw_places(1, 3, 0);
  const float before = steps_.observations_at(places)[0];
  steps_.refresh(places, std::vector<float>{0.25F, 0.75F}, std::vector<float>{7});
  EXPECT_EQ(steps_.observations_at(places)[0], before);
  ByteWriter out;
  steps_.save(out);
  const std::string bytes = out.take();
  SearchedSteps copy(config_, 2, kTwoMoves);
  ByteReader in(bytes, "steps");
  copy.load(in);
  in.expect_end();
  EXPECT_EQ(to_vector<float>(copy.sample(32, 5, 0).value_bk),
            to_vector<float>(steps_.sample(32, 5, 0).value_bk));
  const std::vector<int64_t> steps_3_and_4{3 * 2, 4 * 2, 4 * 2 + 1};
  for (const SearchedSteps* each : std::initializer_list<const SearchedSteps*>{&steps_, &copy}) {
    EXPECT_EQ(each->legal_at(steps_3_and_4), (std::vector<uint8_t>{1, 0, 1, 1, 0, 1}));
  }
}

// Saved lists with room for all steps that would be kept, as earlier versions wrote them.
std::string with_room_for_all(const std::string& saved, int64_t stored, int64_t room,
                              bool prioritised) {
  ByteReader in(saved, "steps");
  ByteWriter out;
  out.put(in.get<int64_t>());
  const auto list = [&]<class T>(T /*type*/, int64_t width) {
    auto values = in.get_all<T>(static_cast<size_t>(stored * width));
    values.resize(static_cast<size_t>(room * width));
    out.put_all(values);
  };
  for (const int64_t width : {1, 1, 2, 1, 1, 1}) {
    list(float{}, width);
  }
  for (const int64_t width : {2, 1, 1}) {
    list(uint8_t{}, width);
  }
  if (prioritised) {
    list(double{}, 1);
  }
  in.expect_end();
  return out.take();
}

TEST_F(SearchedStepsOfTwo, AreSavedAsManyAsThereAre) {
  config_.buffer_size = 2000;
  for (const bool prioritised : {false, true}) {
    config_.prioritised = prioritised;
    SearchedSteps straight(config_, 2, kTwoMoves);
    for (int64_t t = 0; t < 7; ++t) {
      add(t, straight);
    }
    const auto bytes_of = [](const SearchedSteps& steps) {
      ByteWriter out;
      steps.save(out);
      return out.take();
    };
    const std::string saved = bytes_of(straight);
    const size_t lists = prioritised ? 10 : 9, item = 7 * 4 + 4 + (prioritised ? 8 : 0);
    EXPECT_EQ(saved.size(), (1 + lists) * 8 + 7 * 2 * item);
    const std::string earlier = with_room_for_all(saved, 7 * 2, 2000, prioritised);
    add(7, straight);
    for (const std::string& bytes : {saved, earlier}) {
      SearchedSteps again(config_, 2, kTwoMoves);
      ByteReader in(bytes, "steps");
      again.load(in);
      in.expect_end();
      add(7, again);
      EXPECT_EQ(bytes_of(again), bytes_of(straight));
      EXPECT_EQ(to_vector<float>(again.sample(32, 5, 0).value_bk),
                to_vector<float>(straight.sample(32, 5, 0).value_bk));
    }
    for (const size_t size : {size_t{9}, saved.size() / 2, saved.size() - 1}) {
      SearchedSteps again(config_, 2, kTwoMoves);
      ByteReader in(std::string_view(saved).substr(0, size), "steps");
      EXPECT_THAT([&] { again.load(in); }, ThrowsMessage<Error>(HasSubstr("ends early")));
    }
    for (const int64_t added : {int64_t{-1}, int64_t{6}, int64_t{8}}) {
      std::string damaged = saved;
      std::memcpy(damaged.data(), &added, sizeof added);
      SearchedSteps again(config_, 2, kTwoMoves);
      ByteReader in(damaged, "steps");
      EXPECT_THAT([&] { again.load(in); }, ThrowsMessage<Error>(HasSubstr("saved"))) << added;
    }
  }
}

TEST_F(SearchedStepsOfTwo, ShowWhatFollowedAndNothingBehindAnEnd) {
  EXPECT_FALSE(steps_.sample(4, 1, 0).following_bko.has_value());
  config_.chance_codes = 2;
  const MuZeroBatch batch = steps_.sample(64, 1, 0);
  const auto seen = to_vector<float>(batch.observation_bo),
             following = to_vector<float>(*batch.following_bko);
  for (size_t i = 0; i < 64; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      const float then = seen[i] + static_cast<float>(k) + 1;
      const bool is_over = seen[i] == 12 || then == 13;  // step 2 of the second row ends it
      EXPECT_EQ(following[2 * i + k], is_over ? 0 : then) << seen[i];
    }
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
