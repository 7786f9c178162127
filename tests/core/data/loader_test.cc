#include "core/data/token_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::shared_ptr<const WindowSource> source() {
  std::vector<int32_t> tokens(5000);
  std::iota(tokens.begin(), tokens.end(), 0);
  return std::make_shared<TrainingWindows>(
      std::vector<WeightedStream>{{memory_stream(std::move(tokens))}},
      TrainingWindows::Options{.seq_length = 6, .seed = 3});
}

// A source that calls `before` ahead of each sample: to wait, to count or to fail there.
class Hooked final : public WindowSource {
 public:
  explicit Hooked(std::function<void(int64_t sample)> before) : before_(std::move(before)) {}
  int64_t seq_length() const override { return 1; }
  void read(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    before_(sample);
    tokens[0] = static_cast<int32_t>(sample);
    targets[0] = static_cast<int32_t>(sample + 1);
  }

 private:
  std::function<void(int64_t)> before_;
};

TEST(TokenLoader, AnyNumberOfWorkersGivesTheSameBatches) {
  const auto windows = source();
  for (const int workers : {0, 1, 2, 4}) {
    for (const int depth : {1, 3}) {
      TokenLoader loader(windows, {.batch = 5, .workers = workers, .depth = depth});
      for (int64_t k = 0; k < 60; ++k) {
        const TokenBatch& batch = loader.next();
        ASSERT_EQ(batch.batch, 5);
        ASSERT_EQ(batch.seq, 6);
        for (int64_t row = 0; row < 5; ++row) {
          std::vector<int32_t> tokens(6);
          std::vector<int32_t> targets(6);
          windows->read(5 * k + row, tokens, targets);
          ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), batch.tokens.begin() + 6 * row));
          ASSERT_TRUE(std::equal(targets.begin(), targets.end(), batch.targets.begin() + 6 * row));
        }
        ASSERT_EQ(loader.state().samples, 5 * (k + 1));
      }
    }
  }
}

// Blends of sources by weight, with samples that stay inside documents and without.
TEST(TokenLoader, BlendsGiveTheSameBatchesToAnyNumberOfWorkersAndFromAnyPlace) {
  std::vector<WeightedStream> blend;
  Rng rng(12);
  for (const double weight : {1.0, 0.3, 2.5}) {
    std::vector<int32_t> tokens;
    std::vector<int64_t> ends;
    for (int document = 0; document < 60; ++document) {
      for (uint64_t i = rng.below(20); i > 0; --i) {
        tokens.push_back(static_cast<int32_t>(rng.below(1000)));
      }
      ends.push_back(static_cast<int64_t>(tokens.size()));
    }
    blend.push_back({memory_stream(std::move(tokens), std::move(ends)), weight});
  }
  for (const bool packing : {true, false}) {
    const auto windows = std::make_shared<TrainingWindows>(
        blend, TrainingWindows::Options{.seq_length = 7, .seed = 5, .packing = packing});
    TokenLoader straight(windows, {.batch = 6, .workers = 0});
    std::vector<TokenBatch> batches;
    std::vector<LoaderState> states;
    for (int k = 0; k < 80; ++k) {
      states.push_back(straight.state());
      batches.push_back(straight.next());
    }
    for (const int workers : {1, 2, 5}) {
      const size_t from = rng.below(70);
      TokenLoader resumed(windows, {.batch = 6, .workers = workers, .depth = 2}, states[from]);
      for (size_t k = from; k < batches.size(); ++k) {
        const TokenBatch& batch = resumed.next();
        ASSERT_EQ(batch.tokens, batches[k].tokens) << packing << " " << workers << " " << k;
        ASSERT_EQ(batch.targets, batches[k].targets);
      }
    }
  }
}

TEST(TokenLoader, RanksTakeTheirMicroBatchesInTurnsAndReadNoOthers) {
  const auto windows = source();
  const int64_t seq = windows->seq_length();
  for (int64_t rank = 0; rank < 3; ++rank) {
    TokenLoader own(windows, {.batch = BatchPart(12, 2, 3, rank), .workers = 1}, {24});
    TokenLoader straight(windows, {.batch = 12, .workers = 0}, {24});
    for (int k = 0; k < 3; ++k) {
      const TokenBatch& part = own.next();
      const TokenBatch& whole = straight.next();
      ASSERT_EQ(part.batch, 4);
      ASSERT_EQ(own.state(), straight.state());
      for (const auto& [row, sample] : {std::pair(0, 2 * rank), std::pair(1, 2 * rank + 1),
                                        std::pair(2, 6 + 2 * rank), std::pair(3, 7 + 2 * rank)}) {
        EXPECT_TRUE(std::equal(part.tokens.begin() + row * seq,
                               part.tokens.begin() + (row + 1) * seq,
                               whole.tokens.begin() + sample * seq));
      }
    }
  }
}

TEST(TokenLoader, ResumingAnywhereEqualsGoingOn) {
  Rng rng(8);
  const auto windows = source();
  for (int round = 0; round < 20; ++round) {
    TokenLoader straight(windows, {.batch = 4, .workers = static_cast<int>(rng.below(3))});
    for (uint64_t skipped = rng.below(900); skipped > 0; --skipped) {
      straight.next();
    }
    const LoaderState state = straight.state();
    TokenLoader resumed(windows, {.batch = 4, .workers = 2, .depth = 3}, state);
    TokenLoader moved(windows, {.batch = 4, .workers = 2});
    moved.next();
    moved.restore(state);
    for (int k = 0; k < 10; ++k) {
      const std::vector<int32_t> expected = straight.next().tokens;
      ASSERT_EQ(resumed.next().tokens, expected);
      ASSERT_EQ(moved.next().tokens, expected);
    }
    ASSERT_EQ(resumed.state(), straight.state());
    ASSERT_EQ(moved.state(), straight.state());
  }
}

TEST(TokenLoader, ABatchStaysWhileTheNextOnesAreMade) {
  TokenLoader loader(source(), {.batch = 4, .workers = 2, .depth = 2});
  for (int k = 0; k < 20; ++k) {
    const TokenBatch& batch = loader.next();
    const std::vector<int32_t> before = batch.tokens;
    std::this_thread::sleep_for(milliseconds(2));
    ASSERT_EQ(batch.tokens, before);
  }
}

TEST(TokenLoader, AnErrorComesInItsTurnWithTheSampleAndKeepsThePosition) {
  for (const int workers : {0, 1, 3}) {
    const auto fail_at_13 = [](int64_t sample) {
      if (sample == 13) {
        throw IoError("disk.txt: cannot read", 5);
      }
    };
    TokenLoader loader(std::make_shared<Hooked>(fail_at_13),
                       {.batch = 4, .workers = workers, .depth = 3});
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(loader.next().tokens[0], 4 * k);
    }
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(message_of<IoError>([&] { loader.next(); }),
                "disk.txt: cannot read (while reading sample 13)");
      EXPECT_EQ(loader.state().samples, 12);
    }
    loader.restore({16});
    EXPECT_EQ(loader.next().tokens[0], 16);
  }
}

TEST(TokenLoader, StopsBetweenSamplesNotAfterTheBatch) {
  std::atomic<int> begun = 0;
  const auto count_slowly = [&](int64_t) {
    ++begun;
    std::this_thread::sleep_for(milliseconds(20));
  };
  {
    TokenLoader loader(std::make_shared<Hooked>(count_slowly), {.batch = 1000, .workers = 2});
    while (begun == 0) {
      std::this_thread::yield();
    }
  }
  EXPECT_LT(begun, 100);  // each worker had a thousand before it
}

TEST(TokenLoader, WorkersReadAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  bool met = false;
  const auto wait_for_another = [&](int64_t) {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    met = changed.wait_for(lock, std::chrono::seconds(20), [&] { return arrived >= 2; });
  };
  {
    TokenLoader loader(std::make_shared<Hooked>(wait_for_another),
                       {.batch = 1, .workers = 4, .depth = 4});
    loader.next();
  }
  EXPECT_TRUE(met);
}

TEST(TokenLoader, WaitingHasADeadlineThatNamesTheSample) {
  std::promise<void> release;
  const auto wait = [released = release.get_future().share()](int64_t) { released.wait(); };
  TokenLoader loader(std::make_shared<Hooked>(wait),
                     {.batch = 1, .workers = 1, .wait_seconds = 0.02}, {77});
  EXPECT_THAT(message_of<Error>([&] { loader.next(); }),
              HasSubstr("has waited 0.02 s for the batch of sample 77"));
  release.set_value();
}

TEST(TokenLoader, BadOptionsAreErrors) {
  EXPECT_THROW(TokenLoader(source(), {.batch = 0}), Error);
  EXPECT_THROW(TokenLoader(source(), {.workers = -1}), Error);
  EXPECT_THROW(TokenLoader(source(), {.depth = 0}), Error);
  EXPECT_THROW(TokenLoader(source(), {}, {-1}), Error);
}

}  // namespace
}  // namespace mstrain
