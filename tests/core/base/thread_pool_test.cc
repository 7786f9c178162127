#include "core/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "core/base/error.h"
#include "tests/amount.h"

namespace mstrain {
namespace {

TEST(ThreadPool, ChunksAreTheSameForEveryNumberOfThreads) {
  for (int threads : {0, 1, 3}) {
    ThreadPool pool(threads);
    std::mutex mutex;
    std::vector<std::pair<int64_t, int64_t>> chunks;
    pool.parallel_for(10, 4, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      chunks.emplace_back(begin, end);
    });
    std::sort(chunks.begin(), chunks.end());
    EXPECT_EQ(chunks, (std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 8}, {8, 10}}));
    pool.parallel_for(0, 1, [](int64_t, int64_t) { FAIL(); });
    EXPECT_THROW(pool.parallel_for(1, 0, [](int64_t, int64_t) {}), Error);
  }
}

TEST(ThreadPool, ExceptionOfTheLowestChunkReachesTheCaller) {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> calls{0};
    try {
      pool.parallel_for(100, 1, [&](int64_t begin, int64_t) {
        ++calls;
        if (begin >= 7) {
          throw std::runtime_error(std::to_string(begin));
        }
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
    EXPECT_LT(calls, 100);
  }
}

TEST(ThreadPool, NestedLoopsEnd) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(8, 1, [&](int64_t outer, int64_t) {
    pool.parallel_for(100, 7, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sum += outer * i;
      }
    });
  });
  EXPECT_EQ(sum, 28 * 4950);
}

TEST(ThreadPool, FuturesCarryResultsAndExceptions) {
  for (int threads : {0, 2}) {
    ThreadPool pool(threads);
    auto answer = pool.submit([] { return 42; });
    auto failure = pool.submit([]() -> int { throw Error("no"); });
    EXPECT_EQ(answer.get(), 42);
    EXPECT_THROW(failure.get(), Error);
  }
}

TEST(ThreadPool, DestructorRunsWhatWasSubmitted) {
  std::atomic<int> done{0};
  {
    ThreadPool pool(2);
    for (int i = 0; i < 100; ++i) {
      pool.submit([&] { ++done; });
    }
  }
  EXPECT_EQ(done, 100);
}

// A process of its own, which may have no more memory than for a few stacks.
[[noreturn]] void make_too_many_threads() {
  constexpr rlim_t kMost = rlim_t{1} << 30;
  const rlimit limit = {kMost, kMost};
  if (setrlimit(RLIMIT_AS, &limit) != 0) {
    std::_Exit(1);
  }
  try {
    ThreadPool pool(100'000);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(ThreadPoolDeathTest, ThatCannotHaveItsThreadsSaysSo) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers reserve more memory than the limit gives";
  }
  EXPECT_EXIT(make_too_many_threads(), testing::ExitedWithCode(3),
              "ThreadPool: 100000 threads, of which the system gives [0-9]+: ");
}

}  // namespace
}  // namespace mstrain
