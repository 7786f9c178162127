#include "suites/reinforcement/train/shared_batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/rng.h"
#include "core/mstrain.h"

namespace mstrain::reinforcement {
namespace {

TEST(SumTree, FindsEveryLeafInItsShare) {
  for (const int64_t leaves : {1, 2, 7, 16, 17, 33, 256, 257, 5000}) {
    SumTree tree(leaves);
    Rng rng(4, static_cast<uint64_t>(leaves));
    std::vector<double> weights;
    for (int64_t i = 0; i < leaves; ++i) {
      weights.push_back(i % 3 == 1 ? 0 : static_cast<double>(rng.between(1, 9)));
      tree.set(i, 5);
      tree.set(i, weights.back());
    }
    double place = 0;
    for (int64_t i = 0; i < leaves; ++i) {
      if (weights[static_cast<size_t>(i)] > 0) {
        EXPECT_EQ(tree.find({place, place + weights[static_cast<size_t>(i)] - 0.5}),
                  (std::vector<int64_t>{i, i}));
      }
      place += weights[static_cast<size_t>(i)];
    }
    EXPECT_EQ(tree.total(), place);
    EXPECT_GT(weights[static_cast<size_t>(tree.find({2 * place})[0])], 0);  // behind all of them
  }
}

TEST(SumTree, ChangesManyAsOneAfterTheOther) {
  constexpr int64_t kLeaves = 300;
  Rng rng(5);
  SumTree together(kLeaves), apart(kLeaves);
  std::vector<int64_t> leaves;
  std::vector<double> weights;
  for (int64_t i = 0; i < 200; ++i) {
    leaves.push_back(rng.between(0, kLeaves - 1));  // some twice: the last time counts
    weights.push_back(rng.uniform());
    apart.set(leaves.back(), weights.back());
  }
  together.set(leaves, weights);
  EXPECT_EQ(together.weights(kLeaves), apart.weights(kLeaves));
  EXPECT_EQ(together.total(), apart.total());
  for (int i = 0; i < 100; ++i) {
    const double place = rng.uniform() * apart.total();
    EXPECT_EQ(together.find({place}), apart.find({place}));
  }
}

// The same items for the same numbers, everywhere and in every version: a run goes on as it began.
TEST(SumTree, DrawsWhatItAlwaysDrew) {
  constexpr int64_t kLeaves = 70'000, kDrawn = 64;
  Rng rng(6);
  SumTree tree(kLeaves);
  std::vector<double> weights;
  for (int64_t i = 0; i < kLeaves; ++i) {
    weights.push_back(i % 5 == 2 ? 0 : rng.uniform());
  }
  tree.set_weights(weights);
  uint64_t digest = 0;
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<double> places, changed;
    for (int64_t i = 0; i < kDrawn; ++i) {
      places.push_back((static_cast<double>(i) + rng.uniform()) / kDrawn * tree.total());
      changed.push_back(rng.uniform());
    }
    const std::vector<int64_t> found = tree.find(places);
    for (const int64_t leaf : found) {
      digest = digest * 31 + static_cast<uint64_t>(leaf);
    }
    tree.set(found, changed);
  }
  EXPECT_EQ(digest, 1742006537995605388U);
}

constexpr int64_t kRows = 3;

// What one rank that holds all learns from.
struct Sample : OffPolicyBatch {
  std::vector<int64_t> places;
};
Sample sampled(const Replay& replay, int64_t b, uint64_t seed, uint64_t draw, double importance) {
  const Drawn drawn = replay.draw(b, seed, draw, importance);
  const auto items = shared_items(replay, drawn.places, {.items = b}, nullptr);
  return {batch_of(replay.shape(), items.front(), drawn.weights), drawn.places};
}

// Step t of row r has the observation 100 r + t, the reward that plus a quarter, and ends as `flag` says.
struct Steps {
  explicit Steps(ReplayShape shape, std::unique_ptr<StepStore> store = nullptr)
      : replay(shape, store ? std::move(store) : std::make_unique<StepsInMemory>(shape.store())),
        remembers(shape.is_of_sequences()) {}
  void add(int64_t count) {
    for (int64_t i = 0; i < count; ++i, ++t) {
      std::vector<float> now, reward, next, memory;
      std::vector<uint8_t> ended, cut;
      for (int64_t r = 0; r < kRows; ++r) {
        now.push_back(static_cast<float>(100 * r + t));
        reward.push_back(now.back() + 0.25F);
        next.push_back(now.back() + 0.5F);
        if (remembers) {
          memory.insert(memory.end(), {now.back() + 0.125F, -now.back()});
        }
        ended.push_back(ends(t, r) ? 1 : 0);
        cut.push_back(is_cut(t, r) ? 1 : 0);
      }
      replay.add(now, now, reward, ended, cut, next, memory);
    }
  }
  static bool ends(int64_t t, int64_t r) { return (t + r) % 5 == 4; }
  static bool is_cut(int64_t t, int64_t r) { return (t + 2 * r) % 7 == 6; }

  Replay replay;
  bool remembers;
  int64_t t = 0;
};

void expect_as_summed_by_hand(const Sample& drawn, int64_t oldest, int64_t newest, int64_t n_step,
                              double discount) {
  const auto now = to_vector<float>(drawn.observation_bo);
  const auto reward = to_vector<float>(drawn.reward_b);
  const auto rest = to_vector<float>(drawn.discount_b);
  const auto next = to_vector<float>(drawn.next_observation_bo);
  for (size_t i = 0; i < now.size(); ++i) {
    const auto row = static_cast<int64_t>(now[i]) / 100;
    const auto t = static_cast<int64_t>(now[i]) % 100;
    EXPECT_GE(t, oldest);
    EXPECT_LE(t, newest - n_step + 1);
    double sum = 0, factor = 1;
    float after = 0;
    for (int64_t s = t; s < t + n_step; ++s) {
      sum += factor * (static_cast<double>(100 * row + s) + 0.25);
      factor = Steps::ends(s, row) ? 0 : factor * discount;
      after = static_cast<float>(100 * row + s) + 0.5F;
      if (Steps::ends(s, row) || Steps::is_cut(s, row)) {
        break;
      }
    }
    EXPECT_FLOAT_EQ(reward[i], static_cast<float>(sum));
    EXPECT_FLOAT_EQ(rest[i], static_cast<float>(factor));
    EXPECT_EQ(next[i], after);
  }
}

ReplayShape shape(int64_t n_step, std::optional<double> exponent) {
  return {.steps = 9,
          .rows = kRows,
          .observation_size = 1,
          .action_size = 1,
          .n_step = n_step,
          .discount = 0.5,
          .priority_exponent = exponent};
}

TEST(Replay, SumsRewardsUntilAnEpisodeEnds) {
  for (const int64_t n_step : {1, 2, 4}) {
    for (const std::optional<double> exponent : {std::optional<double>(), std::optional(0.7)}) {
      Steps steps(shape(n_step, exponent));
      steps.add(n_step - 1);
      EXPECT_EQ(steps.replay.size(), 0);
      for (int64_t more = 0; more < 30; ++more) {
        steps.add(1);
        const int64_t oldest = std::max<int64_t>(0, steps.t - 9);
        EXPECT_EQ(steps.replay.size(), (steps.t - oldest - n_step + 1) * kRows);
        expect_as_summed_by_hand(sampled(steps.replay, 40, 3, static_cast<uint64_t>(more), 1),
                                 oldest, steps.t - 1, n_step, 0.5);
      }
    }
  }
}

// A sequence's steps follow each other, remember what was remembered in front of the first, and forget where an episode begins.
TEST(Replay, SequencesAreStepsThatFollowEachOther) {
  ReplayShape of_sequences = shape(2, std::nullopt);
  of_sequences.memory_size = 2;
  of_sequences.burn_in = 2;
  of_sequences.unroll = 3;
  ASSERT_EQ(of_sequences.length(), 6);
  Steps steps(of_sequences);
  steps.add(5);
  EXPECT_EQ(steps.replay.size(), 0);
  for (int64_t more = 0; more < 20; ++more) {
    steps.add(1);
    constexpr int64_t kDrawn = 30;
    const Sample drawn = sampled(steps.replay, kDrawn, 3, static_cast<uint64_t>(more), 1);
    const auto now = to_vector<float>(drawn.observation_bo);
    const auto next = to_vector<float>(drawn.next_observation_bo);
    const auto actions = to_vector<float>(drawn.action_bd);
    const auto rewards = to_vector<float>(drawn.reward_b);
    const auto rest = to_vector<float>(drawn.discount_b);
    const auto memory = to_vector<float>(drawn.sequences->memory_bm);
    const auto kept = to_vector<float>(drawn.sequences->kept_lb);
    const auto last = to_vector<int32_t>(drawn.sequences->last_ub);
    ASSERT_EQ(drawn.observation_bo.shape(), (Shape{6 * kDrawn, 1}));
    ASSERT_EQ(drawn.next_observation_bo.shape(), (Shape{4 * kDrawn, 1}));
    for (size_t i = 0; i < kDrawn; ++i) {
      const auto row = static_cast<int64_t>(now[i]) / 100;
      const auto first = static_cast<int64_t>(now[i]) % 100;
      EXPECT_GE(first, std::max<int64_t>(0, steps.t - 9));
      EXPECT_LE(first + 5, steps.t - 1);
      EXPECT_EQ(memory[2 * i], now[i] + 0.125F);
      EXPECT_EQ(memory[2 * i + 1], -now[i]);
      const auto over = [&](int64_t t) { return Steps::ends(t, row) || Steps::is_cut(t, row); };
      for (int64_t s = 0; s < 6; ++s) {
        const size_t at = static_cast<size_t>(s * kDrawn) + i;
        EXPECT_EQ(now[at], static_cast<float>(100 * row + first + s));
        EXPECT_EQ(kept[at], s > 0 && over(first + s - 1) ? 0 : 1);
        if (s < 4) {
          EXPECT_EQ(next[at], static_cast<float>(100 * row + first + 2 + s) + 0.5F);
        }
      }
      for (int64_t u = 0; u < 3; ++u) {
        const size_t at = static_cast<size_t>(u * kDrawn) + i;
        const int64_t t = first + 2 + u;
        const double own = static_cast<double>(100 * row + t) + 0.25;
        EXPECT_EQ(actions[at], static_cast<float>(100 * row + t));
        EXPECT_EQ(last[at], over(t) ? u : u + 1);
        EXPECT_FLOAT_EQ(rewards[at], static_cast<float>(over(t) ? own : own + 0.5 * (own + 1)));
        const int64_t end = over(t) ? t : t + 1;
        EXPECT_FLOAT_EQ(rest[at], Steps::ends(end, row) ? 0.0F : end == t ? 0.5F : 0.25F);
      }
    }
  }
}

TEST(Replay, DrawsInProportionToPriorities) {
  Steps steps(shape(1, 0.5));
  steps.add(9);
  std::vector<int64_t> places(27);
  std::vector<float> errors(27);
  double total = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    places[i] = static_cast<int64_t>(i);
    errors[i] = static_cast<float>(i % 4);
    total += std::sqrt(static_cast<double>(errors[i]) + 1e-6);
  }
  steps.replay.set_errors(places, errors);
  std::vector<double> drawn(27);
  constexpr int64_t kDraws = 20000;
  const Sample sample = sampled(steps.replay, kDraws, 1, 0, 0.5);
  const auto weights = to_vector<float>(sample.weight_b);
  const auto priority = [&](int64_t place) {
    return std::sqrt(static_cast<double>(errors[static_cast<size_t>(place)]) + 1e-6);
  };
  double rarest = 2;
  for (const int64_t place : sample.places) {
    drawn[static_cast<size_t>(place)] += 1.0 / kDraws;
    rarest = std::min(rarest, priority(place));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(weights[i], std::sqrt(rarest / priority(sample.places[i])), 1e-5);
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_NEAR(drawn[i], std::sqrt(static_cast<double>(errors[i]) + 1e-6) / total, 2.0 / kDraws);
  }
}

TEST(Replay, GoesOnFromWhatItSavedBitForBit) {
  for (const std::optional<double> exponent : {std::optional<double>(), std::optional(0.7)}) {
    for (const int64_t before : {2, 5, 9, 23}) {
      Steps straight(shape(2, exponent));
      straight.add(before);
      if (straight.replay.size() > 0) {
        const Sample some = sampled(straight.replay, 5, 1, 1, 1);
        straight.replay.set_errors(some.places, std::vector<float>{3, 1, 4, 1, 5});
      }
      ByteWriter out;
      straight.replay.save(out);
      const std::string bytes = out.take();
      Steps again(shape(2, exponent));
      ByteReader in(bytes, "replay");
      again.replay.load(in);
      in.expect_end();
      again.t = straight.t;
      straight.add(4);
      again.add(4);
      const Sample a = sampled(straight.replay, 30, 7, 2, 0.6);
      const Sample b = sampled(again.replay, 30, 7, 2, 0.6);
      EXPECT_EQ(a.places, b.places);
      EXPECT_EQ(to_vector<float>(a.weight_b), to_vector<float>(b.weight_b));
      EXPECT_EQ(to_vector<float>(a.reward_b), to_vector<float>(b.reward_b));
    }
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
