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
#include "embedding_cache/fair_mutex.h"
#include "embedding_cache/host_slots.h"
#include "embedding_cache/id_map.h"

namespace mstrain::embedding_cache {
// Named, because a member of Reader::State has these types.
namespace reader_detail {

constexpr size_t kShards = 16;
constexpr int64_t kReadAtOnce = 64;
constexpr size_t kWarmAtOnce = 8192;
constexpr uint64_t kGone = IdMap::kNone - 1;  // in a delta: the row was forgotten

inline size_t shard_of(Id id) { return (id * 0x9e3779b97f4a7c15U) >> 60; }

// A piece of the weights in memory. A row that is missing in the commit is not remembered.
struct Shard {
  Shard(uint64_t rows, uint32_t width) : host(rows, width * 4, Policy::kLru) {}
  std::mutex mutex;
  HostSlots host;
};

struct ReaderTable {
  ReaderTable(const TableOptions& options, const Past& gone, uint64_t cache_seed,
              uint64_t host_rows)
      : name(options.name),
        layout(options),
        past(gone),
        seed(table_seed(cache_seed, options.name)),
        zeros(options.untrained == Untrained::kZeros ||
              options.admission.kind != AdmissionKind::kNone) {
    for (auto& shard : shards) {
      shard = std::make_unique<Shard>(std::max<uint64_t>(host_rows / kShards, 1), layout.width());
    }
  }
  // Weights of an id without a row.
  void untrained(Id id, float* out) const {
    const size_t bytes = layout.width() * sizeof(float);
    if (zeros) {
      std::memset(out, 0, bytes);
      return;
    }
    std::vector<std::byte> record(layout.record_bytes());
    layout.initialise(seed, id, record.data());
    std::byte* const begun = record.data();
    past.catch_up(std::span(&begun, 1));
    std::memcpy(out, record.data() + kHeaderBytes, bytes);
  }
  void remember(Id id, const float* weights) const;

  std::string name;
  RowLayout layout;
  const Past& past;  // the commit's
  uint64_t seed;
  bool zeros;
  std::array<std::unique_ptr<Shard>, kShards> shards;
  IdMap delta;  // id -> row of delta_weights, or kGone
  std::vector<float> delta_weights;
};

void ReaderTable::remember(Id id, const float* weights) const {
  Shard& shard = *shards[shard_of(id)];
  const std::lock_guard lock(shard.mutex);
  Slot slot = kNoSlot;
  shard.host.find(std::span(&id, 1), &slot);
  if (slot != kNoSlot) {
    return;  // another thread was faster
  }
  if (shard.host.used() == shard.host.capacity()) {
    std::vector<Slot> victims;
    shard.host.choose_victims(1, victims);
    shard.host.erase(victims[0]);
  }
  slot = shard.host.insert(id);
  shard.host.use(slot);
  std::memcpy(shard.host.record(slot), weights, layout.width() * sizeof(float));
}

// A commit and the deltas on top of it.
struct Generation {
  CommitStore from;
  std::vector<std::unique_ptr<ReaderTable>> tables;
  uint64_t step = 0;
  bool is_replaced = false;  // by a delta of everything, with the others that came after it
  CommitAt taken;            // the newest commit that the last delta knew

  const ReaderTable& at(uint32_t table) const {
    check(table < tables.size(), "embedding_cache: table {} of {}", table, tables.size());
    return *tables[table];
  }
  // Whole records of ascending ids, several reads at a time.
  void read(uint32_t table, std::span<const Id> ids, std::byte* records, bool* there) const {
    const uint32_t bytes = at(table).layout.record_bytes();
    from.pool->parallel_for(
        static_cast<int64_t>(ids.size()), kReadAtOnce, [&](int64_t begin, int64_t end) {
          std::vector<std::byte*> into;
          for (int64_t i = begin; i < end; ++i) {
            into.push_back(records + static_cast<size_t>(i) * bytes);
          }
          from.store->read(table, ids.subspan(static_cast<size_t>(begin), into.size()), into.data(),
                           there + begin);
          for (size_t i = into.size(); i > 0; --i) {
            if (!there[static_cast<size_t>(begin) + i - 1]) {
              into.erase(into.begin() + static_cast<ptrdiff_t>(i) - 1);
            }
          }
          at(table).past.catch_up(into);
        });
  }
  void warm_up(const Generation& before) const;
};

// Brings the rows into memory that were there before.
void Generation::warm_up(const Generation& before) const {
  for (uint32_t t = 0; t < tables.size(); ++t) {
    std::vector<Id> ids;
    for (const auto& shard : before.tables[t]->shards) {
      const std::lock_guard lock(shard->mutex);
      shard->host.each([&](Slot slot) { ids.push_back(shard->host.id(slot)); });
    }
    std::sort(ids.begin(), ids.end());
    const uint32_t bytes = tables[t]->layout.record_bytes();
    std::vector<std::byte> records(std::min(ids.size(), kWarmAtOnce) * bytes);
    const auto there = std::make_unique<bool[]>(kWarmAtOnce);
    for (size_t begin = 0; begin < ids.size(); begin += kWarmAtOnce) {
      const auto part = std::span(ids).subspan(begin, std::min(kWarmAtOnce, ids.size() - begin));
      read(t, part, records.data(), there.get());
      for (size_t i = 0; i < part.size(); ++i) {
        if (there[i]) {
          tables[t]->remember(part[i], weights_of(records.data() + i * bytes));
        }
      }
    }
  }
}

static std::unique_ptr<Generation> open_generation(FileSystem& files, const ReaderOptions& options,
                                                   CommitId commit) {
  auto out = std::make_unique<Generation>();
  out->from =
      open_commit(files, options.directory, commit, options.read_threads, options.direct_io);
  for (size_t t = 0; t < out->from.pasts.size(); ++t) {
    out->tables.push_back(std::make_unique<ReaderTable>(
        out->from.options.tables[t], out->from.pasts[t], out->from.info.seed, options.host_rows));
  }
  out->step = out->from.info.step;
  out->taken = out->from.info.taken;
  return out;
}

}  // namespace reader_detail

struct Reader::State {
  ReaderOptions options;
  FileSystem* files = nullptr;
  std::mutex moving;  // one move at a time; before the others
  std::unique_ptr<reader_detail::Generation> now;
  mutable FairSharedMutex mutex;  // of `now` and its deltas; lookups share it
  mutable std::atomic<uint64_t> lookups = 0;
  mutable std::atomic<uint64_t> hits = 0;
  mutable std::atomic<uint64_t> missing = 0;

  void fetch(uint32_t table, const std::vector<std::pair<Id, size_t>>& wanted, float* out,
             size_t stride, bool* found) const;
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Reader Reader::open(const ReaderOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->files = options.files == nullptr ? &real_files() : options.files;
  constexpr uint64_t kMostRows = uint64_t{1} << 40;
  check(options.read_threads >= 1 && options.read_threads <= kMostReadThreads,
        "embedding_cache: reader: read_threads: expected 1 to {}, found {}", kMostReadThreads,
        options.read_threads);
  check(options.host_rows >= 1 && options.host_rows <= kMostRows,
        "embedding_cache: reader: host_rows: expected 1 to {}, found {}", kMostRows,
        options.host_rows);
  state->now = reader_detail::open_generation(*state->files, options, options.commit);
  return Reader(std::move(state));
}

CommitId Reader::commit() const {
  const std::shared_lock lock(state_->mutex);
  return state_->now->from.info.id;
}
uint64_t Reader::step() const {
  const std::shared_lock lock(state_->mutex);
  return state_->now->step;
}
uint32_t Reader::width(uint32_t table) const {
  const std::shared_lock lock(state_->mutex);
  return state_->now->at(table).layout.width();
}
uint32_t Reader::table(std::string_view name) const {
  const std::shared_lock lock(state_->mutex);
  return state_->now->from.table(name);
}

bool Reader::move_to(CommitId commit) {
  State& state = *state_;
  const std::lock_guard moving(state.moving);  // so that `now` is replaced here alone
  const reader_detail::Generation& before = *state.now;
  if (commit == 0) {
    const std::vector<CommitId> ids = list_commit_folders(*state.files, state.options.directory);
    if (!ids.empty() && ids.back() <= before.from.info.id) {
      return false;
    }
  }
  std::unique_ptr<reader_detail::Generation> next =
      reader_detail::open_generation(*state.files, state.options, commit);
  const std::string where = commit_folder(state.options.directory, next->from.info.id);
  check(next->tables.size() == before.tables.size(), "{}: holds {} tables, this reader has {}",
        where, next->tables.size(), before.tables.size());
  for (size_t t = 0; t < next->tables.size(); ++t) {
    check(next->tables[t]->name == before.tables[t]->name &&
              next->tables[t]->layout.schema() == before.tables[t]->layout.schema(),
          "{}: its table {} is \"{}\" with rows [{}], this reader has \"{}\" with [{}]", where, t,
          next->tables[t]->name, next->tables[t]->layout.schema(), before.tables[t]->name,
          before.tables[t]->layout.schema());
  }
  next->warm_up(before);
  {
    const std::lock_guard lock(state.mutex);
    if (commit == 0 && next->step <= state.now->step) {
      return false;
    }
    state.now.swap(next);
  }
  return true;  // the one before is closed without a lock
}

// Rows from the store, each id once and in order, several reads at a time; then into memory.
void Reader::State::fetch(uint32_t index, const std::vector<std::pair<Id, size_t>>& wanted,
                          float* out, size_t stride, bool* found) const {
  const reader_detail::ReaderTable& table = now->at(index);
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
  now->read(index, ids, records.data(), there.get());
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
      table.untrained(id, out + position * stride);
      ++missing;
    }
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (there[i]) {
      table.remember(ids[i], weights_of(records.data() + i * bytes));
    }
  }
}

void Reader::lookup(uint32_t index, std::span<const Id> ids, float* out, size_t stride,
                    bool* found) const {
  const std::shared_lock lock_of_all(state_->mutex);
  const reader_detail::ReaderTable& table = state_->now->at(index);
  const bool is_replaced = state_->now->is_replaced;
  const uint32_t width = table.layout.width();
  check(stride >= width, "embedding_cache: lookup: rows of {} floats do not fit a stride of {}",
        width, stride);
  uint64_t hits = 0;
  uint64_t gone = 0;
  std::array<std::vector<std::pair<Id, size_t>>, reader_detail::kShards> by_shard;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (found != nullptr) {
      found[i] = false;
    }
    const uint64_t newer = table.delta.find(ids[i]);
    if (newer == IdMap::kNone && !is_replaced) {
      by_shard[reader_detail::shard_of(ids[i])].emplace_back(ids[i], i);
    } else if (newer == reader_detail::kGone || newer == IdMap::kNone) {
      table.untrained(ids[i], out + i * stride);
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
  for (size_t s = 0; s < reader_detail::kShards; ++s) {
    if (by_shard[s].empty()) {
      continue;
    }
    reader_detail::Shard& shard = *table.shards[s];
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
  const std::lock_guard lock(state_->mutex);
  reader_detail::Generation& now = *state_->now;
  check(head.tables.size() == now.tables.size(), "{}: holds {} tables, this reader has {}", path,
        head.tables.size(), now.tables.size());
  for (size_t t = 0; t < head.tables.size(); ++t) {
    const reader_detail::ReaderTable& table = *now.tables[t];
    const uint32_t expected =
        head.with_state ? table.layout.record_bytes() : table.layout.width() * 4;
    check(head.tables[t].name == table.name && head.tables[t].schema == table.layout.schema() &&
              head.tables[t].row_bytes == expected,
          "{}: its table {} is \"{}\" with rows [{}], this reader has \"{}\" with [{}]", path, t,
          head.tables[t].name, head.tables[t].schema, table.name, table.layout.schema());
  }
  check(head.since_step <= now.step,
        "{}: starts after step {}, this reader holds step {}; apply the deltas between first", path,
        head.since_step, now.step);
  check(head.step >= now.step, "{}: ends at step {}, this reader holds step {} already", path,
        head.step, now.step);
  if (!now.is_replaced) {
    check_line(head, path, "reader", {now.from.info.id, now.from.info.step});
  }
  check_line(head, path, "reader", now.taken);
  if (head.since == 0) {  // it names no row that has gone
    now.is_replaced = true;
    for (const auto& table : now.tables) {
      table->delta.clear();
      table->delta_weights.clear();
    }
  }
  ExportSummary summary;
  delta.read([&](uint32_t t, std::span<const Id> ids, const std::byte* rows) {
    reader_detail::ReaderTable& table = *now.tables[t];
    const uint32_t width = table.layout.width();
    const uint32_t row_bytes = head.tables[t].row_bytes;
    for (size_t i = 0; i < ids.size(); ++i) {
      uint64_t& at = table.delta.at(ids[i], reader_detail::kGone);
      if (rows == nullptr) {
        at = reader_detail::kGone;
        continue;
      }
      if (at == reader_detail::kGone) {
        at = table.delta_weights.size() / width;
        table.delta_weights.resize(table.delta_weights.size() + width);
      }
      std::memcpy(table.delta_weights.data() + at * width,
                  rows + i * row_bytes + (head.with_state ? kHeaderBytes : 0),
                  width * sizeof(float));
    }
    (rows == nullptr ? summary.tombstones : summary.rows) += ids.size();
  });
  now.step = head.step;
  now.taken = head.at;
  return summary;
}

ReaderStats Reader::stats() const {
  const std::shared_lock lock(state_->mutex);
  ReaderStats out{.lookups = state_->lookups, .hits = state_->hits, .missing = state_->missing};
  for (const auto& table : state_->now->tables) {
    out.delta_rows += table->delta.size();
  }
  return out;
}

}  // namespace mstrain::embedding_cache
