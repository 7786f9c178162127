#include "core/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "core/schedule/check.h"
#include "core/schedule/simulate.h"
#include "tests/amount.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

// F, B and W of a whole rank take a unit each, whatever its number of chunks.
std::vector<ChunkTimes> equal_times(const Schedule& schedule) {
  const double unit = static_cast<double>(schedule.ranks) / schedule.chunks;
  return std::vector<ChunkTimes>(static_cast<size_t>(schedule.chunks), {unit, unit, unit});
}

template <class F>
void for_each_shipped(int most, F f) {
  for (int ranks = 2; ranks <= most; ++ranks) {
    for (int micro : {ranks, ranks + 1, 2 * ranks - 1, 2 * ranks, 3 * ranks, 4 * ranks}) {
      for (ScheduleKind kind : kScheduleKinds) {
        f(kind, ranks, kind == ScheduleKind::kInterleaved ? 3 : 1, micro);
      }
    }
  }
}

TEST(Schedule, EveryShippedOnePassesItsCheckAndKeepsItsMemory) {
  for_each_shipped(kSanitized ? 24 : 64, [](ScheduleKind kind, int ranks, int each, int micro) {
    SCOPED_TRACE(testing::Message() << name_of(kind) << ' ' << ranks << ' ' << micro);
    const ScheduleFacts facts = check_schedule(make_schedule(kind, ranks, each, micro));
    for (int r = 0; r < ranks; ++r) {
      EXPECT_LE(facts.in_flight[static_cast<size_t>(r)],
                most_in_flight(kind, ranks, each, micro, r));
    }
    if (micro >= 2 * ranks && micro % ranks == 0) {
      EXPECT_EQ(facts.in_flight[0], most_in_flight(kind, ranks, each, micro, 0));
    }
  });
}

TEST(Schedule, BubblesOfASimulationEqualTheFormulas) {
  for_each_shipped(40, [](ScheduleKind kind, int ranks, int each, int micro) {
    if (kind == ScheduleKind::kInterleaved && micro % ranks != 0) {
      return;
    }
    const Schedule schedule = make_schedule(kind, ranks, each, micro);
    EXPECT_NEAR(simulate(schedule, equal_times(schedule)).bubble(),
                bubble_formula(kind, ranks, each, micro), 1e-9)
        << name_of(kind) << ' ' << ranks << ' ' << micro;
  });
}

TEST(Schedule, RanksThatShareProcessorsTakeTurns) {
  for_each_shipped(6, [](ScheduleKind kind, int ranks, int each, int micro) {
    SCOPED_TRACE(testing::Message() << name_of(kind) << ' ' << ranks << ' ' << micro);
    const Schedule schedule = make_schedule(kind, ranks, each, micro);
    std::vector<ChunkTimes> times = equal_times(schedule);
    for (ChunkTimes& chunk : times) {
      chunk.send_forward = chunk.send_backward = 0.25;
    }
    const SimulatedStep alone = simulate(schedule, times);
    std::vector<int> processor(static_cast<size_t>(ranks));
    std::iota(processor.begin(), processor.end(), 0);
    const SimulatedStep enough = simulate_sharing(schedule, times, processor);
    EXPECT_NEAR(enough.seconds, alone.seconds, 1e-9);
    EXPECT_NEAR(enough.bubble(), alone.bubble(), 1e-9);
    EXPECT_EQ(enough.actions.size(), alone.actions.size());
    // Two processors: no sooner than they can do the work, and no later than if all took turns all the time.
    for (int& it : processor) {
      it %= 2;
    }
    const SimulatedStep two = simulate_sharing(schedule, times, processor);
    const int most = (ranks + 1) / 2;
    EXPECT_GE(two.seconds, std::max(alone.seconds, 3.0 * micro * most) - 1e-9);
    EXPECT_LE(two.seconds, most * alone.seconds + 1e-9);
    EXPECT_NEAR(simulate_sharing(schedule, equal_times(schedule), processor, 2).seconds,
                2 * simulate_sharing(schedule, equal_times(schedule), processor).seconds, 1e-9);
    // A single one always has something to do, where messages take no time.
    const std::vector<int> one(processor.size(), 0);
    EXPECT_NEAR(simulate_sharing(schedule, equal_times(schedule), one).seconds, 3.0 * micro * ranks,
                1e-9);
  });
}

TEST(Schedule, ZeroBubbleWaitsAThirdOf1f1bOrNotAtAll) {
  for (int ranks : {4, 8}) {
    const int micro = 4 * ranks;
    const auto bubble = [&](ScheduleKind kind) {
      const Schedule schedule = make_schedule(kind, ranks, 1, micro);
      return simulate(schedule, equal_times(schedule)).bubble();
    };
    EXPECT_NEAR(bubble(ScheduleKind::kZbH1), bubble(ScheduleKind::k1f1b) / 3, 1e-9);
    EXPECT_NEAR(bubble(ScheduleKind::kZbv), 0, 1e-9);
  }
}

TEST(Schedule, TwoDependentActionsExchangedAreRefusedWithBothNamed) {
  for (ScheduleKind kind : kScheduleKinds) {
    const Schedule good = make_schedule(kind, 4, 2, 8);
    std::mt19937 random(7);
    int tried = 0;
    while (tried < 50) {
      const size_t i = random() % good.actions.size();
      const size_t j = random() % good.actions.size();
      const Action& a = good.actions[i];
      const Action& b = good.actions[j];
      if (i >= j || a.rank != b.rank || a.chunk != b.chunk || a.work == Work::kUpdate ||
          b.work == Work::kUpdate || (a.micro_batch != b.micro_batch && a.work != b.work)) {
        continue;
      }
      // W of two micro-batches may be done in any order: nobody is told of it.
      if (a.work == Work::kWeights && b.work == Work::kWeights) {
        continue;
      }
      Schedule bad = good;
      std::swap(bad.actions[i], bad.actions[j]);
      const std::string message = message_of<Error>([&] { check_schedule(bad); });
      EXPECT_THAT(message, HasSubstr(std::string(name_of(kind))));
      // Exchanged, they may be at odds with what stands between them before they meet each other.
      EXPECT_TRUE(message.find(to_string(a)) != std::string::npos ||
                  message.find(to_string(b)) != std::string::npos)
          << message << " for " << to_string(a) << " and " << to_string(b);
      ++tried;
    }
  }
  Schedule bad = one_f_one_b_schedule(2, 2);
  std::swap(bad.actions[1], bad.actions[2]);  // F0.1 and B0.0: still in order, with less in flight
  EXPECT_EQ(check_schedule(bad).in_flight[0], 1);
  std::swap(bad.actions[0], bad.actions[1]);
  EXPECT_EQ(message_of<Error>([&] { check_schedule(bad); }),
            "schedule 1f1b: rank 0: B0.0 stands before F0.0");
}

TEST(Schedule, WhatIsMissingDoubledMisplacedOrStuckIsRefused) {
  const auto refusal = [](const char* ranks) {
    const std::string text =
        std::string("schedule mine\nranks 2\nchunks 2\nmicro_batches 2\n") + ranks;
    return message_of<Error>([&] { check_schedule(parse_schedule(text, "mine.txt")); });
  };
  EXPECT_THAT(refusal("rank 0: F0.0 F0.1 B0.0 B0.1 U\nrank 1: F1.0 B1.0 F1.1 U\n"),
              HasSubstr("B1.1 is missing"));
  EXPECT_THAT(refusal("rank 0: F0.0 F0.0 F0.1 B0.0 B0.1 U\nrank 1: F1.0 B1.0 F1.1 B1.1 U\n"),
              HasSubstr("F0.0 stands there twice"));
  EXPECT_THAT(refusal("rank 0: F0.0 F0.1 B0.0 B0.1 U\nrank 1: F1.0 B1.0 F1.1 B1.1\n"),
              HasSubstr("rank 1: U is missing"));
  EXPECT_THAT(refusal("rank 0: F0.0 F0.1 B0.0 B1.1 B0.1 U\nrank 1: F1.0 B1.0 F1.1 U\n"),
              HasSubstr("rank 0 has chunk 1"));
  EXPECT_THAT(refusal("rank 0: F0.1 F0.0 B0.0 B0.1 U\nrank 1: F1.0 B1.0 F1.1 B1.1 U\n"),
              HasSubstr("rank 0 sends what F0.1 made where rank 1 waits for what F1.0 reads"));
  EXPECT_THAT(refusal("rank 0: F0.0 B0.0 F0.1 B0.1 U\nrank 1: F1.0 F1.1 B1.0 B1.1 U\n"),
              HasSubstr("waits in B0.0 for B1.0, and rank 1 stands at F1.1"));
}

TEST(ScheduleText, EveryShippedOneIsReadBackAsItWas) {
  for_each_shipped(8, [](ScheduleKind kind, int ranks, int each, int micro) {
    const Schedule schedule = make_schedule(kind, ranks, each, micro);
    EXPECT_EQ(parse_schedule(to_text(schedule), "file"), schedule);
  });
}

TEST(ScheduleText, MistakesAreToldWithTheirLine) {
  const auto message = [](const std::string& text) {
    return message_of<ConfigError>([&] { parse_schedule(text, "my.txt"); });
  };
  const std::string head = "schedule mine\nranks 1\nchunks 2\n\n# so many\nmicro_batches 3\n";
  EXPECT_EQ(message("ranks 2\n"), "my.txt:1: expected 'schedule' and its value");
  EXPECT_THAT(message("schedule mine\nranks two\n"),
              HasSubstr("my.txt:2: expected a number of ranks, an integer from 1 to 65536"));
  EXPECT_THAT(message(head + "rank 0: F0.0 X1\n"), HasSubstr("my.txt:7: expected U, or F, B or W"));
  EXPECT_THAT(message(head + "rank 0: F2.0\n"),
              HasSubstr("expected a chunk, an integer from 0 to 1, found '2'"));
  EXPECT_THAT(message(head), HasSubstr("expected 'rank 0:'"));
  EXPECT_THAT(message(head + "rank 0: U\nrank 1: U\n"), HasSubstr("my.txt:8: there are 1 ranks"));
}

TEST(ScheduleText, FuzzedTextsGiveAScheduleOrAnError) {
  std::mt19937 random(20);
  const std::string good = to_text(zbv_schedule(3, 4));
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random() % 256); break;
        case 1: text.erase(at, 1 + random() % 20); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 20)); break;
      }
      if (text.empty()) {
        break;
      }
    }
    try {
      const Schedule schedule = parse_schedule(text, "fuzz");
      EXPECT_EQ(parse_schedule(to_text(schedule), "again"), schedule);
      check_schedule(schedule);
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

}  // namespace
}  // namespace mstrain
