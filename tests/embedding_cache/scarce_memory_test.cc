// Want of memory at the worst moment: large arrays may be refused to order, for all of this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "core/base/error.h"
#include "embedding_cache/cache.h"
#include "tests/embedding_cache/temp_directory.h"

namespace {

std::atomic<size_t> refused_from = ~size_t{0};  // bytes of an array
std::atomic<bool> refusing = false;             // somebody has asked and waits for the answer
std::atomic<bool> answer_now = false;

}  // namespace

void* operator new[](size_t bytes) {
  if (bytes >= refused_from.load()) {
    refusing = true;
    refusing.notify_all();
    answer_now.wait(false);
    throw std::bad_alloc();
  }
  return ::operator new(bytes);
}
void operator delete[](void* memory) noexcept { ::operator delete(memory); }
void operator delete[](void* memory, size_t) noexcept { ::operator delete(memory); }

namespace mstrain::embedding_cache {
namespace {

// Memory for a commit's rows is refused while rows of that commit change, leave, and come back.
TEST(ScarceMemory, CommitThatFailsLeavesItsRowsToTheNextOne) {
  constexpr uint64_t kRows = 40;
  const auto options_in = [](const std::string& directory) {
    Options options;
    options.directory = directory;
    options.check_shadow = true;
    options.store.kind = StoreKind::kMemory;
    options.store.write_back_rows = 8;
    options.tables = {{.name = "t", .host_rows = kRows, .segments = {{.width = 2}}}};
    return options;
  };
  const auto learn = [](Cache& cache, Id first, uint64_t count, uint64_t step) {
    std::vector<Id> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    Ticket ticket = cache.prefetch(0, ids, step);
    cache.wait(ticket);
    std::vector<float> values(count * 2);
    cache.gather(ticket, values.data(), 2);
    cache.update(ticket, values);
    cache.release(std::move(ticket));
  };
  const auto read = [](Cache& cache, Id first, uint64_t count) {
    std::vector<Id> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    Ticket ticket = cache.prefetch(0, ids, 99, Use::kRead);
    cache.wait(ticket);
    std::vector<float> values(count * 2);
    cache.gather(ticket, values.data(), 2);
    cache.release(std::move(ticket));
  };
  const TempDirectory directory;
  const TempDirectory straight;
  const auto train = [&](Cache& cache, bool fail) {
    learn(cache, 0, kRows, 1);
    CommitId failed = 0;
    if (fail) {
      answer_now = false;
      refusing = false;
      refused_from = 1 << 20;
      failed = cache.start_commit(1);
      refusing.wait(false);
    }
    learn(cache, 0, 10, 2);  // changed since
    read(cache, 100, 30);    // drives out 30, some of them unchanged
    read(cache, 10, 5);      // and these come back
    learn(cache, 200, 20, 3);
    if (fail) {
      answer_now = true;
      answer_now.notify_all();
      EXPECT_THROW(cache.wait_commit(failed), std::bad_alloc);
      refused_from = ~size_t{0};
    }
    read(cache, 0, kRows);
    cache.commit_step(3);
  };
  {
    Cache cache = Cache::open(options_in(directory.path()));
    train(cache, true);
    EXPECT_EQ(cache.last_commit(), 1U);
  }
  Cache expected = Cache::open(options_in(straight.path()));
  train(expected, false);
  Cache cache = Cache::open(options_in(directory.path()));
  EXPECT_EQ(cache.stats().tables[0].rows, kRows + 20);
  EXPECT_EQ(cache.digest(), expected.digest());
}

}  // namespace
}  // namespace mstrain::embedding_cache
