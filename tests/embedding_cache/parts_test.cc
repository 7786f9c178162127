// The parts of the cache by themselves, each against something obvious.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "core/base/rng.h"
#include "embedding_cache/dedup.h"
#include "embedding_cache/host_slots.h"
#include "embedding_cache/id_map.h"
#include "embedding_cache/look_ahead.h"
#include "embedding_cache/write_back.h"

namespace mstrain::embedding_cache {
namespace {

constexpr uint64_t kPartsSeed = 20260107;

class Parts : public testing::Test {
 protected:
  Parts() { RecordProperty("seed", static_cast<int>(kPartsSeed)); }
  Rng rng_{kPartsSeed};
};

TEST_F(Parts, DedupNumbersIdsByFirstOccurrence) {
  Dedup dedup;
  Batch batch;
  for (int round = 0; round < 60; ++round) {
    const size_t count = rng_.below(20000);
    const uint64_t range = 1 + rng_.below(30000);
    std::vector<Id> ids(count);
    for (Id& id : ids) {
      id = rng_.below(range) * (round % 2 == 0 ? 1 : 0x100000001ULL);
    }
    dedup.run(ids, batch);
    std::unordered_map<Id, uint32_t> known;
    std::vector<Id> unique;
    for (size_t i = 0; i < count; ++i) {
      const auto [it, fresh] = known.try_emplace(ids[i], unique.size());
      if (fresh) {
        unique.push_back(ids[i]);
      }
      ASSERT_EQ(batch.inverse[i], it->second) << "round " << round << " seed " << kPartsSeed;
    }
    ASSERT_EQ(batch.unique, unique);
    const Positions positions = positions_by_id(batch);
    for (size_t u = 0; u < unique.size(); ++u) {
      for (uint32_t i = positions.begin[u]; i < positions.begin[u + 1]; ++i) {
        ASSERT_EQ(ids[positions.order[i]], unique[u]);
        ASSERT_TRUE(i == positions.begin[u] || positions.order[i - 1] < positions.order[i]);
      }
    }
  }
}

TEST_F(Parts, IdMapEqualsAPlainMap) {
  IdMap map;
  std::unordered_map<Id, uint64_t> plain;
  for (int i = 0; i < 200000; ++i) {
    const Id id = rng_.below(500) * 0x9e3779b97f4a7c15U;
    switch (rng_.below(3)) {
      case 0:
        map.set(id, static_cast<uint64_t>(i));
        plain[id] = static_cast<uint64_t>(i);
        break;
      case 1: ASSERT_EQ(map.erase(id), plain.erase(id) == 1); break;
      default: {
        const auto it = plain.find(id);
        ASSERT_EQ(map.find(id), it == plain.end() ? IdMap::kNone : it->second);
      }
    }
    ASSERT_EQ(map.size(), plain.size());
  }
}

// Random inserts, erasures, pins and uses against a plain map; victims are unpinned and the least recently used.
TEST_F(Parts, HostTierEqualsAPlainMap) {
  constexpr uint64_t kRows = 700;
  HostSlots host(kRows, 16, Policy::kLru);
  struct Row {
    Slot slot;
    uint64_t used;
    int pins;
  };
  std::map<Id, Row> plain;
  const auto random_id = [&] { return rng_.below(3000) * 0x9e3779b97f4a7c15U; };
  for (int i = 0; i < 40000; ++i) {
    const Id id = random_id();
    Slot slot = kNoSlot;
    host.find(std::span(&id, 1), &slot);
    const auto it = plain.find(id);
    ASSERT_EQ(slot, it == plain.end() ? kNoSlot : it->second.slot) << i;
    if (it == plain.end()) {
      if (host.used() == kRows) {
        const uint64_t count = 1 + rng_.below(5);
        std::vector<Slot> victims;
        host.choose_victims(count, victims);
        ASSERT_EQ(victims.size(), count);
        for (const Slot victim : victims) {
          const Id gone = host.id(victim);
          ASSERT_EQ(plain.at(gone).pins, 0);
          const uint64_t used = plain.at(gone).used;
          host.erase(victim);
          plain.erase(gone);
          for (const auto& [other, row] : plain) {
            const bool also_leaves =
                std::find(victims.begin(), victims.end(), row.slot) != victims.end();
            ASSERT_TRUE(row.pins > 0 || row.used >= used || also_leaves) << i;
          }
        }
      }
      const Slot fresh = host.insert(id);
      host.use(fresh);
      plain[id] = {fresh, host.now(), 0};
    } else if (rng_.below(4) == 0 && it->second.pins < 3) {
      host.pin(slot);
      ++it->second.pins;
    } else if (it->second.pins > 0) {
      host.unpin(slot);
      --it->second.pins;
    } else {
      host.use(slot);
      it->second.used = host.now();
    }
    ASSERT_EQ(host.used(), plain.size());
    ASSERT_EQ(host.pinned(),
              static_cast<uint64_t>(std::count_if(plain.begin(), plain.end(), [](const auto& row) {
                return row.second.pins > 0;
              })));
    if (i % 3 == 0) {
      host.advance();
    }
  }
}

TEST_F(Parts, HostTierForgetsAgesOnlyBeyondItsHorizon) {
  HostSlots host(4, 8, Policy::kLru);
  for (Id id = 0; id < 4; ++id) {
    host.use(host.insert(id));
  }
  for (int i = 0; i < 200000; ++i) {
    host.advance();
    host.use(static_cast<Slot>(i % 3));  // slot 3 is never used again
  }
  std::vector<Slot> victims;
  host.choose_victims(1, victims);
  EXPECT_EQ(victims[0], 3U);
}

TEST_F(Parts, HostTierCostsAtMostSixteenBytesBesideARecord) {
  constexpr uint64_t kRows = 1000000;
  const HostSlots host(kRows, 980, Policy::kLookAhead);
  EXPECT_LE(static_cast<double>(host.overhead_bytes()) / kRows, 16.0);
}

TEST_F(Parts, LeastUsedRowLeavesFirst) {
  HostSlots host(3, 8, Policy::kLfu);
  for (Id id = 0; id < 3; ++id) {
    const Slot slot = host.insert(id);
    for (Id use = 0; use < 5 - id; ++use) {
      host.use(slot);
    }
  }
  std::vector<Slot> victims;
  host.choose_victims(2, victims);
  EXPECT_EQ(host.id(victims[0]), 2U);
  EXPECT_EQ(host.id(victims[1]), 1U);
}

TEST_F(Parts, LookAheadKnowsTheNextBatchOfEachId) {
  LookAhead window;
  std::vector<std::vector<Id>> batches(40);
  uint64_t pushed = 0;
  Dedup dedup;
  for (size_t b = 0; b < batches.size(); ++b) {
    for (int i = 0; i < 30; ++i) {
      batches[b].push_back(rng_.below(100));
    }
  }
  for (size_t b = 0; b < batches.size(); ++b) {
    while (pushed < std::min(batches.size(), b + 6)) {
      LookAhead::Entry entry;
      dedup.run(batches[pushed], entry.batch);
      window.push(std::move(entry), pushed + 1, [](size_t) {});
      ++pushed;
    }
    const LookAhead::Entry entry = window.pop();
    for (size_t u = 0; u < entry.batch.unique.size(); ++u) {
      uint64_t next = 0;
      for (size_t later = b + 1; later < pushed && next == 0; ++later) {
        const auto& ids = batches[later];
        next =
            std::find(ids.begin(), ids.end(), entry.batch.unique[u]) == ids.end() ? 0 : later + 1;
      }
      ASSERT_EQ(entry.next[u], next);
    }
  }
}

TEST_F(Parts, WriteBackGivesTheNewestCopyUntilTheStoreHasIt) {
  WriteBack out;
  out.reset({8, 4}, 5, 1 << 20);
  std::map<std::pair<uint32_t, Id>, uint64_t> pending;
  std::map<std::pair<uint32_t, Id>, uint64_t> taken;
  bool writing = false;
  for (uint64_t i = 1; i < 20000; ++i) {
    const auto table = static_cast<uint32_t>(rng_.below(2));
    const Id id = rng_.below(40);
    const uint64_t value = i & 0xffffffffU;
    switch (rng_.below(8)) {
      case 0:
        if (!writing) {
          out.seal();
          taken = pending;
          const std::vector<RowWrite> rows = out.take();
          ASSERT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
            return std::pair(a.table, a.id) < std::pair(b.table, b.id);
          }));
          ASSERT_EQ(rows.size(), taken.size());
          for (const RowWrite& row : rows) {
            uint32_t found = 0;
            std::memcpy(&found, row.record, 4);
            ASSERT_EQ(found, taken.at({row.table, row.id}));
          }
          writing = true;
        }
        break;
      case 1:
        if (writing) {
          out.confirm();
          for (const auto& [key, written] : taken) {
            if (pending.at(key) == written) {
              pending.erase(key);
            }
          }
          writing = false;
        }
        break;
      default:
        out.add(table, id, reinterpret_cast<const std::byte*>(&value));
        pending[{table, id}] = value;
    }
    const auto known = pending.find({table, id});
    const std::byte* found = out.find(table, id);
    ASSERT_EQ(found != nullptr, known != pending.end()) << i;
    if (found != nullptr) {
      uint32_t read = 0;
      std::memcpy(&read, found, 4);
      ASSERT_EQ(read, known->second);
    }
  }
}

// Batches of many tables in turn: memory is taken for rows, not for the batches that they might fill.
TEST_F(Parts, WriteBackTakesMemoryForItsRowsWhateverTheirTables) {
  constexpr uint32_t kTables = 33;
  constexpr uint64_t kBytes = 980;
  WriteBack out;
  out.reset(std::vector<uint32_t>(kTables, kBytes), 8192, 32 << 20);
  const std::vector<std::byte> record(kBytes);
  for (uint64_t round = 1; round <= 100; ++round) {
    for (uint32_t t = 0; t < kTables; ++t) {
      out.add(t, round, record.data());
    }
    EXPECT_LE(out.bytes(), round * kTables * kBytes * 11 / 10 + (256 << 10));
  }
  EXPECT_FALSE(out.has_sealed()) << "3300 rows are no batch of 8192";
  for (Id id = 1000; !out.has_sealed(); ++id) {
    out.add(0, id, record.data());
  }
  EXPECT_EQ(out.take().size(), 8192U);
  out.confirm();
  EXPECT_EQ(out.bytes(), 0U);
  out.reset({1 << 20}, 8192, 4 << 20);
  const std::vector<std::byte> wide(1 << 20);
  for (Id id = 0; id < 4; ++id) {
    EXPECT_FALSE(out.has_sealed());
    out.add(0, id, wide.data());
  }
  EXPECT_TRUE(out.has_sealed()) << "a batch of wide rows is full by its bytes";
}

}  // namespace
}  // namespace mstrain::embedding_cache
