// Rows that learn outside of the cache: whatever fits there, the cache comes to hold what it would have learned itself.
#include "embedding_cache/hot_rows.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "embedding_cache/commit.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/embedding_cache/stores.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kVocabulary = 150;
constexpr size_t kIds = 20;
constexpr uint64_t kSteps = 60;

Options options_of(const std::string& directory, StoreKind store, uint64_t host_rows) {
  Options options;
  options.directory = directory;
  options.store = {.kind = store, .write_back_rows = 4};
  options.keep = 100;
  options.check_shadow = true;
  options.tables = {{.name = "t",
                     .host_rows = host_rows,
                     .segments = {{.width = 3, .optimizer = {.kind = OptimizerKind::kLazyAdam}},
                                  {.width = 1, .optimizer = {.kind = OptimizerKind::kSgd}}}}};
  return options;
}

std::vector<Id> ids_of(uint64_t step) {
  Rng rng(5, step);
  std::set<Id> ids;
  while (ids.size() < kIds) {
    ids.insert(rng.below(1 + rng.below(kVocabulary)));
  }
  return {ids.begin(), ids.end()};
}

float gradient_of(uint64_t step, Id id) { return 0.1F * static_cast<float>((step + id) % 7); }

// Memory that the cache knows nothing of.
class Outside {
 public:
  Outside(Cache& cache, uint64_t rows)
      : cache_(cache), hot_(cache, 0, rows), floats_(rows * kFloats) {}

  HotRows& hot() { return hot_; }

  void step(uint64_t step) {
    give_back(std::exchange(leaving_, {}));
    const std::vector<Id> ids = ids_of(step);
    std::vector<uint32_t> inverse(kIds);
    std::iota(inverse.begin(), inverse.end(), 0);
    HotRows::Batch batch = hot_.hold(ids, inverse, step);
    leaving_ = {std::move(batch.leaving), {}};
    for (const Slot slot : leaving_.rows.slots) {
      leaving_.values.insert(leaving_.values.end(), at(slot), at(slot) + kFloats);
    }
    for (size_t i = 0; i < batch.coming.size(); ++i) {
      std::memcpy(at(batch.coming[i]), weights_of(batch.records[i]), kFloats * sizeof(float));
    }
    const LazyAdam::Prepared adam = LazyAdam{.lr = 0.01F}.at(step);
    for (size_t u = 0; u < ids.size(); ++u) {
      float* const row = at(batch.slots[u]);
      const std::vector<float> gradient(4, gradient_of(step, ids[u]));
      adam(row, row + 4, gradient.data(), 3);
      Sgd{.lr = 0.01F}(row + 3, nullptr, gradient.data(), 1);
    }
    hot_.learned(std::move(batch));
  }

  void bring_home() {
    give_back(std::exchange(leaving_, {}));
    for (LeavingRows rows; !(rows = hot_.changed(7)).slots.empty();) {
      Leaving home{std::move(rows), {}};
      for (const Slot slot : home.rows.slots) {
        home.values.insert(home.values.end(), at(slot), at(slot) + kFloats);
      }
      give_back(home);
    }
  }

 private:
  static constexpr size_t kFloats = 10;  // 4 weights, 6 moments
  struct Leaving {
    LeavingRows rows;
    std::vector<float> values;
  };
  float* at(Slot slot) { return floats_.data() + slot * kFloats; }
  void give_back(const Leaving& leaving) { hot_.give_back(leaving.rows, leaving.values); }

  Cache& cache_;
  HotRows hot_;
  std::vector<float> floats_;
  Leaving leaving_;
};

void learn_inside(Cache& cache, uint64_t step) {
  const std::vector<Id> ids = ids_of(step);
  Ticket ticket = cache.prefetch(0, ids, step);
  cache.wait(ticket);
  std::vector<float> gradients;
  for (const Id id : ids) {
    gradients.insert(gradients.end(), 4, gradient_of(step, id));
  }
  cache.update(ticket, gradients, LazyAdam{.lr = 0.01F}, Sgd{.lr = 0.01F});
  cache.release(std::move(ticket));
}

// What the cache holds after each commit, where `step` learns.
template <class F>
std::vector<std::string> digests(Cache& cache, const F& step, const std::function<void()>& home) {
  std::vector<std::string> out;
  for (uint64_t s = 1; s <= kSteps; ++s) {
    step(s);
    if (s % 10 == 0) {
      home();
      cache.commit_step(s);
      out.push_back(cache.digest());
    }
  }
  return out;
}

TEST(HotRows, BringTheCacheToWhatItWouldHaveLearned) {
  for (const StoreKind store : stores()) {
    for (const auto& [host_rows, rows] :
         {std::pair<uint64_t, uint64_t>{30, 20}, {30, 60}, {30, 1000}, {1000, 20}}) {
      SCOPED_TRACE(fmt::format("{} in host memory, {} outside", host_rows, rows));
      const TempDirectory inside, outside;
      Cache plain = Cache::open(options_of(inside / "rows", store, 1000));
      const std::vector<std::string> expected = digests(
          plain, [&](uint64_t s) { learn_inside(plain, s); }, [] {});
      Cache cache = Cache::open(options_of(outside / "rows", store, host_rows));
      Outside memory(cache, rows);
      EXPECT_EQ(digests(
                    cache, [&](uint64_t s) { memory.step(s); }, [&] { memory.bring_home(); }),
                expected);
      EXPECT_EQ(cache.stats().tables[0].rows, plain.stats().tables[0].rows);
      EXPECT_EQ(cache.stats().tables[0].updates, kSteps * kIds);
      EXPECT_EQ(memory.hot().stats().ids, kSteps * kIds);
      EXPECT_EQ(memory.hot().stats().hits > kSteps * kIds / 2, rows > 20);
    }
  }
}

// A commit that is written behind holds what was given back before it, however slow the disk, and whatever is given back meanwhile.
TEST(HotRows, GiveBackNewerRowsWhileACommitIsWritten) {
  for (const StoreKind store : stores()) {
    const TempDirectory inside, outside;
    HookedFiles files([](std::string_view, const std::string&) {
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
    Cache plain = Cache::open(options_of(inside / "rows", store, 1000));
    const std::vector<std::string> expected = digests(
        plain, [&](uint64_t s) { learn_inside(plain, s); }, [] {});
    Options options = options_of(outside / "rows", store, 25);
    options.files = &files;
    {
      Cache cache = Cache::open(options);
      Outside memory(cache, 30);
      CommitId started = 0;
      for (uint64_t s = 1; s <= kSteps; ++s) {
        memory.step(s);
        if (s % 10 == 0) {
          if (started != 0) {
            cache.commit(started);
          }
          memory.bring_home();
          started = cache.start_commit(s);
        }
      }
      cache.commit(started);
    }
    options.files = nullptr;
    for (const CommitId id : list_commit_folders(real_files(), options.directory)) {
      Cache cache = Cache::resume(options, id);
      EXPECT_EQ(cache.digest(), expected[cache.last_step() / 10 - 1]) << "commit " << id;
    }
  }
}

TEST(HotRows, TellRowsThatChangeBehindAPartOfTheOthers) {
  const TempDirectory directory;
  Cache cache = Cache::open(options_of(directory / "rows", StoreKind::kMemory, 100));
  HotRows hot(cache, 0, 6);
  const auto learn = [&](const std::vector<Id>& ids, uint64_t step) {
    std::vector<uint32_t> inverse(ids.size());
    std::iota(inverse.begin(), inverse.end(), 0U);
    hot.learned(hot.hold(ids, inverse, step));
  };
  learn({1, 2, 3, 4}, 1);
  const std::vector<Id> first = hot.changed(2).ids;
  ASSERT_EQ(first.size(), 2U);
  learn(first, 2);
  std::set<Id> left;
  for (LeavingRows some; !(some = hot.changed(3)).slots.empty();) {
    left.insert(some.ids.begin(), some.ids.end());
  }
  EXPECT_EQ(left, (std::set<Id>{1, 2, 3, 4}));
}

TEST(HotRows, RefuseWhatDoesNotFitAndLeaveItAsItWas) {
  const TempDirectory directory;
  Cache cache = Cache::open(options_of(directory / "rows", StoreKind::kMemory, 100));
  HotRows hot(cache, 0, 3);
  const std::vector<Id> ids{1, 2, 3, 4};
  const std::vector<uint32_t> inverse{0, 1, 2, 3};
  EXPECT_THROW(hot.hold(ids, inverse, 1), Error);
  EXPECT_EQ(hot.used(), 0U);
  HotRows::Batch batch = hot.hold(std::span(ids).first(3), std::span(inverse).first(3), 1);
  EXPECT_EQ(hot.used(), 3U);
  EXPECT_THAT(hot.missing(ids), testing::ElementsAre(4));
  hot.dropped(std::move(batch));
  EXPECT_TRUE(hot.changed(10).slots.empty());
  cache.commit_step(1);
  EXPECT_EQ(cache.stats().tables[0].rows, 0U);
}

}  // namespace
}  // namespace mstrain::embedding_cache
