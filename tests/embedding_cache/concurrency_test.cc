// Calls from several threads at once. What is learned is what one thread learns; built with -DMSTRAIN_SANITIZE=thread, the accesses are
// checked as well.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <deque>
#include <shared_mutex>
#include <thread>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "embedding_cache/fair_mutex.h"
#include "embedding_cache/reader.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint32_t kTables = 3;
constexpr uint64_t kRounds = 5;
constexpr uint64_t kStepsOfRound = 12;
constexpr size_t kPositions = 60;

std::vector<Id> batch_of(uint32_t table, uint64_t step) {
  Rng rng(100 + table, step);
  std::vector<Id> ids(kPositions);
  for (Id& id : ids) {
    const double u = rng.uniform();
    id = hash_mix(static_cast<uint64_t>(u * u * 900));
  }
  return ids;
}

Options options_in(const std::string& directory, StoreKind store, int threads) {
  Options options;
  options.directory = directory;
  options.store.kind = store;
  options.store.read_threads = 3;
  options.store.write_back_rows = 20;
  options.threads = threads;
  options.keep = 2;
  for (uint32_t t = 0; t < kTables; ++t) {
    TableOptions table{.name = fmt::format("t{}", t), .host_rows = 4 * kPositions + 40};
    table.segments = {{.width = 3, .optimizer = {.kind = OptimizerKind::kLazyAdam}}};
    table.policy = static_cast<Policy>(t);
    table.eviction = {.ttl_steps = 9, .min_keep_rows = 5};
    options.tables.push_back(table);
  }
  options.tables[1].admission = {.kind = AdmissionKind::kCount, .count = 2};
  options.tables[2].admission = {
      .kind = AdmissionKind::kBloom, .count = 2, .bloom_counters = 1 << 12, .window_steps = 7};
  return options;
}

// One batch of a table: from prefetch to release, gradients from what was gathered.
void learn(Cache& cache, Ticket ticket) {
  cache.wait(ticket);
  std::vector<float> values(kPositions * 3);
  cache.gather(ticket, values.data(), 3);
  for (float& value : values) {
    value = 0.1F * value + 0.5F;
  }
  cache.update(ticket, values);
  cache.release(std::move(ticket));
}

// What happens between two rounds; the commit of the round before is awaited.
void between_rounds(Cache& cache, uint64_t step, CommitId& started) {
  cache.evict(step);
  if (started != 0) {
    cache.commit(started);
  }
  started = cache.start_commit(step);
}

std::string learn_alone(const std::string& directory, StoreKind store) {
  Cache cache = Cache::open(options_in(directory, store, 1));
  CommitId started = 0;
  for (uint64_t step = 1; step <= kRounds * kStepsOfRound; ++step) {
    for (uint32_t t = 0; t < kTables; ++t) {
      learn(cache, cache.prefetch(t, batch_of(t, step), step));
    }
    if (step % kStepsOfRound == 0) {
      between_rounds(cache, step, started);
    }
  }
  return cache.digest();
}

// A thread for each table learns; two others read rows of all of them, one asks for figures. Commits are written meanwhile.
void learn_together(StoreKind store) {
  const TempDirectory alone;
  const TempDirectory together;
  const std::string expected = learn_alone(alone.path(), store);
  Cache cache = Cache::open(options_in(together.path(), store, 2));
  FairSharedMutex no_tickets;  // held alone by who wants none, shared by who reads
  std::atomic<uint64_t> step_read = 0;
  std::atomic<bool> done = false;
  CommitId started = 0;
  uint64_t rounds = 0;
  std::barrier end_of_round(kTables, [&]() noexcept {
    const std::lock_guard lock(no_tickets);
    between_rounds(cache, ++rounds * kStepsOfRound, started);
  });
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kTables; ++t) {
    threads.emplace_back([&, t] {
      std::deque<Ticket> ahead;
      for (uint64_t step = 1; step <= kRounds * kStepsOfRound; ++step) {
        const uint64_t last = (step - 1) / kStepsOfRound * kStepsOfRound + kStepsOfRound;
        for (uint64_t next = step + ahead.size(); next <= std::min(step + 1, last); ++next) {
          ahead.push_back(cache.prefetch(t, batch_of(t, next), next));
        }
        learn(cache, std::move(ahead.front()));
        ahead.pop_front();
        if (step % kStepsOfRound == 0) {
          end_of_round.arrive_and_wait();
        }
      }
    });
  }
  std::vector<std::thread> others;
  for (int reader = 0; reader < 2; ++reader) {
    others.emplace_back([&, reader] {
      Rng rng(7, static_cast<uint64_t>(reader));
      std::vector<float> values(kPositions * 3);
      std::vector<const float*> rows;
      while (!done) {
        const auto table = static_cast<uint32_t>(rng.below(kTables));
        const std::shared_lock lock(no_tickets);
        Ticket ticket = cache.prefetch(table, batch_of(table, 1 + rng.below(60)), 1, Use::kRead);
        cache.wait(ticket);
        cache.gather(ticket, values.data(), 3);
        cache.rows(ticket, rows);
        cache.release(std::move(ticket));
        ++step_read;
        std::this_thread::yield();
      }
    });
  }
  others.emplace_back([&] {
    while (!done) {
      EXPECT_LE(cache.stats().tables[0].host_rows, cache.stats().tables[0].host_capacity);
      cache.last_commit();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::thread& thread : threads) {
    thread.join();
  }
  done = true;
  for (std::thread& thread : others) {
    thread.join();
  }
  EXPECT_GT(step_read, 0U);
  const Stats stats = cache.stats();
  EXPECT_GT(stats.tables[1].refused + stats.tables[2].refused, 0U);
  EXPECT_GT(stats.tables[0].evicted_dirty, 0U);
  cache.commit(started);
  EXPECT_EQ(cache.digest(), expected);
}

TEST(Concurrency, ThreadsOnOneCacheLearnWhatOneThreadDoes) {
  learn_together(StoreKind::kMemory);
  if (has_rocksdb()) {
    learn_together(StoreKind::kRocksdb);
  }
}

// One thread brings in, another learns, and a third keeps asking for what wants no ticket: it gets an error or a whole answer.
TEST(Concurrency, CallsThatWantNoTicketMayComeAtAnyTime) {
  const TempDirectory directory;
  Cache cache = Cache::open(options_in(directory.path(), StoreKind::kMemory, 2));
  std::atomic<uint64_t> answers = 0;
  std::atomic<bool> done = false;
  std::thread asker([&] {
    while (!done || answers < 3) {
      try {
        std::vector<Id> ids;
        cache.scan(0, [&](Id id, const std::byte* record) {
          EXPECT_GT(load_header(record).updates, 0U);
          ids.push_back(id);
        });
        EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
        cache.commit_step(cache.last_step() + 1000);
        ++answers;
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_TRUE(text.find("tickets are open") != std::string::npos ||
                    text.find("has learned step") != std::string::npos)
            << text;
      }
    }
  });
  uint64_t learned = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    try {
      // Later than any commit that the other thread may have made by now.
      learn(cache, cache.prefetch(0, batch_of(0, i + 1), cache.last_step() + 1));
      ++learned;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the last commit holds step"), std::string::npos)
          << error.what();
    }
  }
  done = true;
  asker.join();
  EXPECT_GT(learned, 0U);
}

// Serving: lookups go on while newer commits come, and see one of them, whole.
TEST(Concurrency, ReadersMoveWhileTheyServe) {
  const TempDirectory directory;
  Options options = options_in(directory.path(), StoreKind::kMemory, 1);
  options.tables.resize(1);
  options.keep = 50;
  Cache cache = Cache::open(options);
  const std::vector<Id> ids{1, 2, 3, 4, 5, 6, 7, 8};
  const auto advance = [&](uint64_t step) {
    Ticket ticket = cache.prefetch(0, ids, step);
    cache.wait(ticket);
    cache.update(ticket, std::vector<float>(ids.size() * 3, 1.0F));
    cache.release(std::move(ticket));
    cache.commit_step(step);
  };
  advance(1);
  Reader reader = Reader::open({.directory = directory.path(), .host_rows = 32, .read_threads = 2});
  std::atomic<bool> done = false;
  std::atomic<uint64_t> lookups = 0;
  std::vector<std::thread> threads;
  std::vector<float> first(ids.size() * 3);
  reader.lookup(0, ids, first.data(), 3);
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::vector<float> out(ids.size() * 3);
      while (!done || lookups < 20) {
        reader.lookup(0, ids, out.data(), 3);
        ++lookups;
        for (size_t j = 1; j < out.size(); ++j) {
          // Every weight has moved by the same, up to rounding that is far below a step of 0.01.
          const float moved = (first[j] - out[j]) - (first[0] - out[0]);
          EXPECT_LT(std::fabs(moved), 0.005F);
        }
      }
    });
  }
  for (uint64_t step = 2; step <= 8; ++step) {
    advance(step);
    EXPECT_TRUE(reader.move_to());
    EXPECT_EQ(reader.step(), step);
    EXPECT_FALSE(reader.move_to()) << "there is nothing newer";
  }
  EXPECT_TRUE(reader.move_to(2)) << "asked for by id, an older one too";
  EXPECT_EQ(reader.step(), 2U);
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THROW(reader.move_to(99), IoError);
  EXPECT_EQ(reader.commit(), 2U);
}

}  // namespace
}  // namespace mstrain::embedding_cache
