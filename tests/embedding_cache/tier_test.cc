// Every tier keeps the same contract, and a stack of tiers acts like its last one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/base/thread_pool.h"
#include "embedding_cache/host_tier.h"
#include "embedding_cache/row.h"
#include "embedding_cache/row_store.h"
#include "tests/embedding_cache/hooked_files.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kTierSeed = 31;
constexpr uint32_t kTable = 1;
constexpr uint32_t kBytes = 24;
constexpr Id kIds = 150;
using Record = std::array<std::byte, kBytes>;

Record make_record(uint64_t number) {
  Record out{};
  std::memcpy(out.data(), &number, sizeof number);
  out[kBytes - 1] = std::byte{1};
  return out;
}

class Tiers : public testing::Test {
 protected:
  Tiers() {
    context_.workers = &pool_;
    host_.add_table(other_);
    host_.add_table(slots_);
  }

  void write(std::span<Tier* const> tiers, const std::vector<RowWrite>& rows) {
    for (const RowWrite& row : rows) {
      if (row.record == nullptr) {
        model_.erase(row.id);
      } else {
        std::memcpy(model_[row.id].data(), row.record, kBytes);
      }
    }
    write_through(tiers, rows);
  }
  void write_all(std::span<Tier* const> tiers) {
    std::vector<Record> records(kIds);
    std::vector<RowWrite> rows;
    for (Id id = 0; id < kIds; ++id) {
      records[id] = make_record(id + 1000);
      rows.push_back({kTable, id, records[id].data()});
    }
    write(tiers, rows);
  }
  void write_some(std::span<Tier* const> tiers) {
    std::map<Id, Record> batch;
    std::vector<RowWrite> rows;
    for (int i = 0; i < 10; ++i) {
      batch[rng_.below(kIds)] = make_record(rng_.next_u64());
    }
    for (const auto& [id, record] : batch) {
      rows.push_back({kTable, id, rng_.below(4) == 0 ? nullptr : record.data()});
    }
    write(tiers, rows);
  }
  // Reads some ids and compares; returns how many were found.
  size_t compare(std::span<Tier* const> tiers, bool has_all) {
    std::vector<Id> ids;
    for (Id id = rng_.below(5); id < kIds; id += 1 + rng_.below(5)) {
      ids.push_back(id);
    }
    const Record untouched = make_record(7);
    std::vector<Record> out(ids.size(), untouched);
    std::vector<std::byte*> into;
    for (Record& record : out) {
      into.push_back(record.data());
    }
    const auto found = std::make_unique<bool[]>(ids.size());
    read_through(tiers, kTable, ids, into.data(), found.get());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto expected = model_.find(ids[i]);
      EXPECT_TRUE(!found[i] || expected != model_.end()) << "id " << ids[i] << " was deleted";
      EXPECT_TRUE(found[i] || !has_all || expected == model_.end())
          << "id " << ids[i] << " is lost";
      EXPECT_EQ(out[i], found[i] ? model_[ids[i]] : untouched) << "id " << ids[i];
    }
    return static_cast<size_t>(std::count(found.get(), found.get() + ids.size(), true));
  }

  TempDirectory directory_;
  ThreadPool pool_{2};
  StoreContext context_{.record_bytes = {16, kBytes}, .files = &real_files()};
  HostSlots other_{5, 16, Policy::kLru};
  HostSlots slots_{60, kBytes, Policy::kLru};
  HostTier host_;
  Rng rng_{kTierSeed};
  std::map<Id, Record> model_;
};

TEST_F(Tiers, StoresFindWhatWasWritten) {
  std::vector<std::unique_ptr<RowStore>> stores;
  stores.push_back(open_memory_store(context_, ""));
  if (has_rocksdb()) {
    stores.push_back(open_rocksdb_store(context_, directory_ / "live", ""));
  }
  for (const auto& store : stores) {
    SCOPED_TRACE(fmt::format("{}, seed {}", store->name(), kTierSeed));
    Tier* const tier = store.get();
    model_.clear();
    write_all(std::span(&tier, 1));
    for (int round = 0; round < 200; ++round) {
      write_some(std::span(&tier, 1));
      compare(std::span(&tier, 1), true);
    }
  }
}

// A scan for what changed must not cost what the whole table does.
TEST_F(Tiers, ScanAfterAStepReadsOnlyFilesWithSuchRows) {
  if (!has_rocksdb()) {
    GTEST_SKIP() << "built without RocksDB";
  }
  std::atomic<uint64_t> reads = 0;
  HookedFiles files([&](std::string_view what, const std::string& path) {
    reads += what == "map" && path.ends_with(".sst") ? 1 : 0;
  });
  context_.files = &files;
  constexpr uint64_t kRows = 600'000;  // 20 MB, read two at a time
  const auto store = open_rocksdb_store(context_, directory_ / "live", "");
  std::vector<Record> records(kRows);
  std::vector<RowWrite> rows;
  for (Id id = 0; id < kRows; ++id) {
    store_header(records[id].data(), {.step = 3, .updates = 1});
    rows.push_back({kTable, id, records[id].data()});
  }
  store->write(rows);
  const auto later = std::span(rows).first(50'000);
  for (Id id = 0; id < later.size(); ++id) {
    store_header(records[id].data(), {.step = id % 10 == 0 ? 7U : 3U, .updates = 2});
  }
  store->write(later);
  store->write(std::vector<RowWrite>{{kTable, 20, nullptr}});
  store->checkpoint(directory_ / "checkpoint");  // what was in memory is a file now
  const auto scan = [&](uint64_t after_step, uint64_t& reads_of_it) {
    std::vector<Id> ids;
    reads = 0;
    store->scan(kTable, after_step, [&](Id id, const std::byte*) { ids.push_back(id); });
    reads_of_it = reads;
    return ids;
  };
  uint64_t all = 0;
  uint64_t some = 0;
  uint64_t none = 0;
  EXPECT_EQ(scan(0, all).size(), kRows - 1);
  const std::vector<Id> changed = scan(5, some);
  EXPECT_EQ(changed.size(), 5000U - 1);
  EXPECT_TRUE(std::all_of(changed.begin(), changed.end(), [](Id id) { return id % 10 == 0; }));
  EXPECT_TRUE(scan(7, none).empty());
  EXPECT_LT(some, all / 2) << "of " << all << " reads";
  EXPECT_LE(none, 2U) << "the deletion must be seen";
}

TEST_F(Tiers, HostMemoryOverAStoreActsLikeTheStore) {
  const auto store = open_memory_store(context_, "");
  const std::vector<Tier*> stack{&host_, store.get()};
  write_all(stack);
  EXPECT_EQ(slots_.used(), 0U) << "what comes from elsewhere brings nothing into host memory";
  for (Id id = 0; id < kIds; id += 3) {
    const Slot slot = slots_.insert(id);
    std::memcpy(slots_.record(slot), model_[id].data(), kBytes);
    slots_.set_dirty(slot, true);
  }
  EXPECT_EQ(slots_.used(), 50U);
  size_t found = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(fmt::format("round {}, seed {}", round, kTierSeed));
    write_some(stack);
    compare(stack, true);
    found +=
        compare(std::span(stack).first(1), false);  // newer than nothing below, older than nothing
  }
  EXPECT_GT(found, 100U);
  EXPECT_LT(slots_.used(), 50U) << "deleted rows leave";
  write_all(stack);
  host_.each_dirty([](uint32_t, Slot) { FAIL() << "the store has every row"; });
}

}  // namespace
}  // namespace mstrain::embedding_cache
