#include "embedding_cache/reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "core/base/error.h"
#include "embedding_cache/commit_store.h"
#include "embedding_cache/delta.h"
#include "embedding_cache/host_slots.h"
#include "embedding_cache/id_map.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kShards = 16;
constexpr int64_t kReadAtOnce = 64;
constexpr uint64_t kGone = IdMap::kNone - 1;  // in a delta: the row was forgotten

size_t shard_of(Id id) { return (id * 0x9e3779b97f4a7c15U) >> 60; }

// A piece of the weights in memory. A row that is missing in the commit is not remembered.
struct Shard {
  Shard(uint64_t rows, uint32_t width) : host(rows, width * 4, Policy::kLru) {}
  std::mutex mutex;
  HostSlots host;
};

struct ReaderTable {
  ReaderTable(const TableOptions& options, uint64_t host_rows)
      : name(options.name), layout(options) {
    for (auto& shard : shards) {
      shard = std::make_unique<Shard>(std::max<uint64_t>(host_rows / kShards, 1), layout.width());
    }
  }
  std::string name;
  RowLayout layout;
  std::array<std::unique_ptr<Shard>, kShards> shards;
  IdMap delta;  // id -> row of delta_weights, or kGone
  std::vector<float> delta_weights;
};

}  // namespace

struct Reader::State {
  FileSystem* files = nullptr;
  CommitStore from;
  std::vector<std::unique_ptr<ReaderTable>> tables;
  mutable std::shared_mutex delta_mutex;  // lookups share it
  mutable std::mutex
      gate;  // passed by everyone on the way to delta_mutex, so that lookups cannot starve a delta
  uint64_t step = 0;
  mutable std::atomic<uint64_t> lookups = 0;
  mutable std::atomic<uint64_t> hits = 0;
  mutable std::atomic<uint64_t> missing = 0;

  std::shared_lock<std::shared_mutex> share() const {
    const std::lock_guard pass(gate);
    return std::shared_lock(delta_mutex);
  }
  const ReaderTable& at(uint32_t table) const {
    check(table < tables.size(), "embedding_cache: table {} of {}", table, tables.size());
    return *tables[table];
  }
  void fetch(uint32_t table, const std::vector<std::pair<Id, size_t>>& wanted, float* out,
             size_t stride, bool* found) const;
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Reader Reader::open(const ReaderOptions& options) {
  auto state = std::make_unique<State>();
  state->files = options.files == nullptr ? &real_files() : options.files;
  FileSystem& files = *state->files;
  check(options.read_threads >= 1 && options.host_rows >= 1,
        "embedding_cache: reader: {} threads and {} rows in memory", options.read_threads,
        options.host_rows);
  state->from = open_commit(files, options.directory, options.commit, options.read_threads,
                            options.direct_io);
  for (const TableOptions& table : state->from.options.tables) {
    state->tables.push_back(std::make_unique<ReaderTable>(table, options.host_rows));
  }
  state->step = state->from.info.step;
  return Reader(std::move(state));
}

CommitId Reader::commit() const { return state_->from.info.id; }
uint64_t Reader::step() const {
  const std::shared_lock lock = state_->share();
  return state_->step;
}
uint32_t Reader::width(uint32_t table) const { return state_->at(table).layout.width(); }
uint32_t Reader::table(std::string_view name) const { return state_->from.table(name); }

// Rows from the store, each id once and in order, several reads at a time; then into memory.
void Reader::State::fetch(uint32_t index, const std::vector<std::pair<Id, size_t>>& wanted,
                          float* out, size_t stride, bool* found) const {
  const ReaderTable& table = at(index);
  const uint32_t width = table.layout.width();
  const uint32_t bytes = table.layout.record_bytes();
  std::vector<Id> ids;
  for (const auto& [id, position] : wanted) {
    if (ids.empty() || ids.back() != id) {
      ids.push_back(id);
    }
  }
  std::vector<std::byte> records(ids.size() * bytes);
  const auto there = std::make_unique<bool[]>(ids.size());
  from.pool->parallel_for(
      static_cast<int64_t>(ids.size()), kReadAtOnce, [&](int64_t begin, int64_t end) {
        std::vector<std::byte*> into;
        for (int64_t i = begin; i < end; ++i) {
          into.push_back(records.data() + static_cast<size_t>(i) * bytes);
        }
        from.store->read(index, std::span(ids).subspan(static_cast<size_t>(begin), into.size()),
                         into.data(), there.get() + begin);
      });
  size_t at_id = 0;
  for (const auto& [id, position] : wanted) {
    at_id += ids[at_id] == id ? 0 : 1;
    if (there[at_id]) {
      std::memcpy(out + position * stride, records.data() + at_id * bytes + kHeaderBytes,
                  width * sizeof(float));
      if (found != nullptr) {
        found[position] = true;
      }
    } else {
      ++missing;
    }
  }
  std::vector<Slot> victims;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!there[i]) {
      continue;
    }
    Shard& shard = *table.shards[shard_of(ids[i])];
    const std::lock_guard lock(shard.mutex);
    Slot slot = kNoSlot;
    shard.host.find(std::span(&ids[i], 1), &slot);
    if (slot != kNoSlot) {
      continue;  // another thread was faster
    }
    if (shard.host.used() == shard.host.capacity()) {
      shard.host.choose_victims(1, victims);
      shard.host.erase(victims[0]);
    }
    slot = shard.host.insert(ids[i]);
    shard.host.use(slot);
    std::memcpy(shard.host.record(slot), records.data() + i * bytes + kHeaderBytes,
                width * sizeof(float));
  }
}

void Reader::lookup(uint32_t index, std::span<const Id> ids, float* out, size_t stride,
                    bool* found) const {
  const ReaderTable& table = state_->at(index);
  const uint32_t width = table.layout.width();
  check(stride >= width, "embedding_cache: lookup: rows of {} floats do not fit a stride of {}",
        width, stride);
  const std::shared_lock delta_lock = state_->share();
  uint64_t hits = 0;
  uint64_t gone = 0;
  std::array<std::vector<std::pair<Id, size_t>>, kShards> by_shard;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::fill_n(out + i * stride, width, 0.0F);
    if (found != nullptr) {
      found[i] = false;
    }
    const uint64_t newer = table.delta.find(ids[i]);
    if (newer == IdMap::kNone) {
      by_shard[shard_of(ids[i])].emplace_back(ids[i], i);
    } else if (newer == kGone) {
      ++gone;
    } else {
      std::memcpy(out + i * stride, table.delta_weights.data() + newer * width,
                  width * sizeof(float));
      if (found != nullptr) {
        found[i] = true;
      }
      ++hits;
    }
  }
  std::vector<std::pair<Id, size_t>> wanted;
  for (size_t s = 0; s < kShards; ++s) {
    if (by_shard[s].empty()) {
      continue;
    }
    Shard& shard = *table.shards[s];
    const std::lock_guard lock(shard.mutex);
    shard.host.advance();
    for (const auto& [id, position] : by_shard[s]) {
      Slot slot = kNoSlot;
      shard.host.find(std::span(&id, 1), &slot);
      if (slot == kNoSlot) {
        wanted.emplace_back(id, position);
        continue;
      }
      shard.host.use(slot);
      std::memcpy(out + position * stride, shard.host.record(slot), width * sizeof(float));
      if (found != nullptr) {
        found[position] = true;
      }
      ++hits;
    }
  }
  state_->lookups += ids.size();
  state_->hits += hits;
  state_->missing += gone;
  if (!wanted.empty()) {
    std::sort(wanted.begin(), wanted.end());
    state_->fetch(index, wanted, out, stride, found);
  }
}

ExportSummary Reader::apply_delta(const std::string& path) {
  const DeltaReader delta(*state_->files, path);
  const DeltaHead& head = delta.head();
  check(head.tables.size() == state_->tables.size(), "{}: holds {} tables, this reader has {}",
        path, head.tables.size(), state_->tables.size());
  for (size_t t = 0; t < head.tables.size(); ++t) {
    const ReaderTable& table = *state_->tables[t];
    const uint32_t expected =
        head.with_state ? table.layout.record_bytes() : table.layout.width() * 4;
    check(head.tables[t].name == table.name && head.tables[t].schema == table.layout.schema() &&
              head.tables[t].row_bytes == expected,
          "{}: its table {} is \"{}\" with rows [{}], this reader has \"{}\" with [{}]", path, t,
          head.tables[t].name, head.tables[t].schema, table.name, table.layout.schema());
  }
  const std::lock_guard pass(state_->gate);
  const std::unique_lock lock(state_->delta_mutex);
  check(head.since_step <= state_->step,
        "{}: starts after step {}, this reader holds step {}; apply the deltas between first", path,
        head.since_step, state_->step);
  check(head.step >= state_->step, "{}: ends at step {}, this reader holds step {} already", path,
        head.step, state_->step);
  ExportSummary summary;
  delta.read([&](uint32_t t, std::span<const Id> ids, const std::byte* rows) {
    ReaderTable& table = *state_->tables[t];
    const uint32_t width = table.layout.width();
    const uint32_t row_bytes = head.tables[t].row_bytes;
    for (size_t i = 0; i < ids.size(); ++i) {
      uint64_t& at = table.delta.at(ids[i], kGone);
      if (rows == nullptr) {
        at = kGone;
        continue;
      }
      if (at == kGone) {
        at = table.delta_weights.size() / width;
        table.delta_weights.resize(table.delta_weights.size() + width);
      }
      std::memcpy(table.delta_weights.data() + at * width,
                  rows + i * row_bytes + (head.with_state ? kHeaderBytes : 0),
                  width * sizeof(float));
    }
    (rows == nullptr ? summary.tombstones : summary.rows) += ids.size();
  });
  state_->step = head.step;
  return summary;
}

ReaderStats Reader::stats() const {
  const std::shared_lock lock = state_->share();
  ReaderStats out{.lookups = state_->lookups, .hits = state_->hits, .missing = state_->missing};
  for (const auto& table : state_->tables) {
    out.delta_rows += table->delta.size();
  }
  return out;
}

}  // namespace mstrain::embedding_cache
