#include "core/data/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/base/error.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

// Token i is i, so a window shows where it lies.
TokenStreamPtr counting(int64_t size, int32_t first = 0) {
  std::vector<int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), first);
  return memory_stream(std::move(tokens));
}

struct Sample {
  std::vector<int32_t> tokens, targets;
  bool operator==(const Sample&) const = default;
};
Sample read(const WindowSource& source, int64_t sample) {
  Sample out{std::vector<int32_t>(source.seq_length()), std::vector<int32_t>(source.seq_length())};
  source.read(sample, out.tokens, out.targets);
  return out;
}

TEST(TokenStream, PartsAndJoinsReadAsOneSequence) {
  const auto joined = concat_streams(
      {counting(3), slice_stream(counting(10), 3, 5), memory_stream({}), counting(4, 5)});
  ASSERT_EQ(joined->size(), 9);
  for (int64_t begin = 0; begin <= 9; ++begin) {
    for (int64_t end = begin; end <= 9; ++end) {
      std::vector<int32_t> out(end - begin);
      joined->read(begin, out);
      for (int64_t i = 0; i < end - begin; ++i) {
        ASSERT_EQ(out[i], begin + i);
      }
    }
  }
  std::vector<int32_t> out(2);
  EXPECT_THROW(joined->read(8, out), Error);
  EXPECT_THROW(joined->read(-1, out), Error);
  EXPECT_THROW(slice_stream(counting(3), 2, 5), Error);
  EXPECT_THROW(slice_stream(counting(9), 2, 5)->read(2, out), Error);
}

TEST(TrainingWindows, EachPassVisitsEveryWindowExactlyOnce) {
  for (const int64_t seq : {1, 2, 3, 8}) {
    for (int64_t size = seq + 1; size < 6 * seq + 4; ++size) {
      for (const bool shuffle : {false, true}) {
        const TrainingWindows windows({{counting(size)}},
                                      {.seq_length = seq, .shuffle = shuffle, .seed = 4});
        const int64_t count = windows.windows_per_epoch(0);
        ASSERT_GE(count, 1);
        for (int64_t epoch = 0; epoch < 4; ++epoch) {
          std::set<int64_t> starts;
          for (int64_t i = 0; i < count; ++i) {
            const auto place = windows.locate(epoch * count + i);
            ASSERT_EQ(place.epoch, epoch);
            ASSERT_GE(place.start, 0);
            ASSERT_LT(place.start + seq, size);
            ASSERT_TRUE(starts.insert(place.start).second);
          }
          // Next to each other, and all but the ends of the text are covered.
          ASSERT_EQ(*starts.rbegin() - *starts.begin(), (count - 1) * seq);
          ASSERT_LT(size - count * seq, shuffle ? 2 * seq + 1 : seq + 1);
        }
      }
    }
  }
}

TEST(TrainingWindows, TargetsAreTheNextTokens) {
  const TrainingWindows windows({{counting(100)}}, {.seq_length = 7, .seed = 1});
  for (int64_t i = 0; i < 50; ++i) {
    const Sample sample = read(windows, i);
    for (int64_t t = 0; t < 7; ++t) {
      ASSERT_EQ(sample.tokens[t], windows.locate(i).start + t);
      ASSERT_EQ(sample.targets[t], sample.tokens[t] + 1);
    }
  }
}

TEST(TrainingWindows, EpochsFallDifferently) {
  const TrainingWindows windows({{counting(1000)}}, {.seq_length = 10, .seed = 1});
  const int64_t count = windows.windows_per_epoch(0);
  std::set<int64_t> phases;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    phases.insert(windows.locate(epoch * count).start % 10);
  }
  EXPECT_EQ(phases.size(), 10U);
}

TEST(TrainingWindows, SeedAloneDecidesTheOrder) {
  const auto starts = [](uint64_t seed) {
    const TrainingWindows windows({{counting(1000)}}, {.seq_length = 10, .seed = seed});
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 30; ++i) {
      out.push_back(windows.locate(i).start);
    }
    return out;
  };
  EXPECT_EQ(starts(5), starts(5));
  EXPECT_NE(starts(5), starts(6));
}

TEST(TrainingWindows, WithoutShufflingTheTextIsReadInOrder) {
  const TrainingWindows windows({{counting(12)}}, {.seq_length = 5, .shuffle = false});
  EXPECT_THAT(read(windows, 0).tokens, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(read(windows, 1).targets, ElementsAre(6, 7, 8, 9, 10));
  EXPECT_EQ(read(windows, 2), read(windows, 0));
}

TEST(TrainingWindows, BlendsKeepTheirSharesAndEachSourceItsPasses) {
  const TrainingWindows windows({{counting(101), 3}, {counting(51, 1000), 1}},
                                {.seq_length = 10, .seed = 2});
  std::multiset<int64_t> second;
  const int64_t count = windows.windows_per_epoch(1);
  for (int64_t i = 0; i < 4 * count; ++i) {
    const auto place = windows.locate(i);
    ASSERT_EQ(read(windows, i).tokens[0], place.start + (place.stream == 1 ? 1000 : 0));
    if (place.stream == 1) {
      ASSERT_EQ(place.epoch, 0);
      second.insert(place.start);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(second.size()), count);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), second.size());
}

TEST(TrainingWindows, TooShortAStreamIsAnError) {
  EXPECT_THROW(TrainingWindows({{counting(8)}}, {.seq_length = 8}), Error);
  EXPECT_THROW(TrainingWindows({{counting(8)}}, {.seq_length = 0}), Error);
  EXPECT_THROW(TrainingWindows({}, {.seq_length = 4}), Error);
  EXPECT_EQ(TrainingWindows({{counting(9)}}, {.seq_length = 8}).windows_per_epoch(0), 1);
}

TEST(EvaluationWindows, EveryTokenButTheFirstIsScoredOnce) {
  for (const int64_t seq : {1, 2, 3, 8}) {
    for (int64_t size = 2; size < 5 * seq + 3; ++size) {
      const EvaluationWindows windows(counting(size), seq);
      std::vector<int> scored(size);
      for (int64_t i = 0; i < windows.samples() + 3; ++i) {
        const Sample sample = read(windows, i);
        for (int64_t t = 0; t < seq; ++t) {
          if (sample.targets[t] == kIgnoreTarget) {
            ASSERT_EQ(sample.tokens[t], 0);
          } else {
            ASSERT_EQ(sample.targets[t], sample.tokens[t] + 1);
            ++scored[sample.targets[t]];
          }
        }
      }
      ASSERT_EQ(scored[0], 0);
      ASSERT_EQ(std::count(scored.begin(), scored.end(), 1), size - 1);
      ASSERT_EQ(windows.scored_tokens(), size - 1);
    }
  }
}

TEST(EvaluationWindows, FewerWindowsAreSpreadOverTheText) {
  const EvaluationWindows windows(counting(1001), 10, 4);
  EXPECT_EQ(windows.samples(), 4);
  EXPECT_EQ(windows.scored_tokens(), 40);
  std::vector<int32_t> firsts;
  for (int64_t i = 0; i < 5; ++i) {
    firsts.push_back(read(windows, i).tokens[0]);
  }
  EXPECT_THAT(firsts, ElementsAre(0, 250, 500, 750, 0));
  EXPECT_EQ(EvaluationWindows(counting(25), 10, 9).samples(), 3);
  EXPECT_EQ(EvaluationWindows(counting(25), 10, 9).scored_tokens(), 24);
  EXPECT_EQ(EvaluationWindows(counting(25), 10, 0).scored_tokens(), 0);
  EXPECT_THROW(EvaluationWindows(counting(1), 10), Error);
}

}  // namespace
}  // namespace mstrain
