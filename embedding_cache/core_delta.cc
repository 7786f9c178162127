// Rows that come from and go to somewhere else.
#include <algorithm>

#include "core/base/error.h"
#include "embedding_cache/core.h"
#include "embedding_cache/delta.h"

namespace mstrain::embedding_cache {
namespace {

constexpr size_t kRowsAtOnce = 65536;

}  // namespace

ExportSummary Core::export_delta(CommitId since, const std::string& path, bool with_state) {
  require_batches_alone("export_delta");
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "export_delta");
  uint64_t since_step = 0;
  if (since != 0) {
    if (pending_ != nullptr && pending_->info.id == since) {
      settle(lock);
    }
    check(kept_.contains(since),
          "embedding_cache: export_delta since commit {}, which is not there; {}", since,
          kept_.empty()
              ? std::string("there is none")
              : fmt::format("there are {} to {}", kept_.begin()->first, kept_.rbegin()->first));
    since_step = read_manifest(*files, options.directory, since).step;
  }
  flush_dirty(lock);
  DeltaHead head{.since = since,
                 .since_step = since_step,
                 .step = newest_step(),
                 .with_state = with_state,
                 .at = {committed_, committed_step_},
                 .abandoned = abandoned_};
  for (const auto& table : tables) {
    head.tables.push_back(
        {.name = table->options.name,
         .schema = table->layout.schema(),
         .width = table->layout.width(),
         .row_bytes = with_state ? table->layout.record_bytes() : table->layout.width() * 4});
  }
  DeltaWriter writer(*files, path, head);
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const Table& table = *tables[t];
    std::vector<std::pair<Id, uint64_t>> changed;
    table.tombstones.each([&](Id id, uint64_t step) { changed.emplace_back(id, step); });
    writer.add_table(t, *store_, table.layout.record_bytes(), changed);
  }
  writer.finish();
  return {.rows = writer.rows(), .tombstones = writer.tombstones()};
}

ExportSummary Core::import_delta(const std::string& path) {
  const DeltaReader reader(*files, path);
  const DeltaHead& head = reader.head();
  check(head.with_state,
        "{}: holds weights alone; a cache that trains needs the optimizer state too", path);
  check(head.tables.size() == tables.size(), "{}: holds {} tables, this cache has {}", path,
        head.tables.size(), tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    check(head.tables[t].name == tables[t]->options.name &&
              head.tables[t].schema == tables[t]->layout.schema() &&
              head.tables[t].row_bytes == tables[t]->layout.record_bytes(),
          "{}: its table {} is \"{}\" with rows [{}], this cache has \"{}\" with [{}]", path, t,
          head.tables[t].name, head.tables[t].schema, tables[t]->options.name,
          tables[t]->layout.schema());
  }
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "import_delta");
  check(head.since_step <= newest_step(),
        "{}: starts after step {} (commit {} where it was made), this cache holds step {}; import "
        "what lies between first, or an export of everything",
        path, head.since_step, head.since, newest_step());
  check(head.step >= newest_step(), "{}: ends at step {}, this cache holds step {} already", path,
        head.step, newest_step());
  if (!is_replaced_) {
    check_line(head, path, "cache", {committed_, committed_step_});
  }
  check_line(head, path, "cache", taken_);
  flush_dirty(lock);
  // Of a file of everything, which names no row that has gone.
  std::vector<std::vector<Id>> stay(tables.size());
  reader.read([&](uint32_t table, std::span<const Id> ids, const std::byte* rows) {
    if (rows == nullptr) {
      return;
    }
    check_not_older(table, ids, rows);
    if (head.since == 0 && tables[table]->rows > 0) {
      stay[table].insert(stay[table].end(), ids.begin(), ids.end());
    }
  });
  for (const auto& table : tables) {
    table->learned_step = std::max(table->learned_step, head.step);
    table->last_step = std::max(table->last_step, table->learned_step);
  }
  taken_ = head.at;
  is_replaced_ = is_replaced_ || head.since == 0;
  ExportSummary summary;
  for (uint32_t t = 0; head.since == 0 && t < tables.size(); ++t) {
    summary.tombstones += forget_others(t, std::move(stay[t]));
  }
  reader.read([&](uint32_t table, std::span<const Id> ids, const std::byte* rows) {
    if (rows != nullptr) {
      apply_rows(table, ids, rows);
      summary.rows += ids.size();
      return;
    }
    std::vector<Id> there;
    for (const KnownRow& row : known_rows(table, ids)) {
      there.push_back(row.id);
    }
    forget_rows(table, there);
    summary.tombstones += ids.size();
  });
  return summary;
}

// Everything is quiet and flushed.
uint64_t Core::forget_others(uint32_t index, std::vector<Id>&& stay) {
  if (tables[index]->rows == 0) {
    return 0;
  }
  std::sort(stay.begin(), stay.end());
  std::vector<Id> gone;
  store_->scan(index, [&](Id id, const std::byte*) {
    if (!std::binary_search(stay.begin(), stay.end(), id)) {
      gone.push_back(id);
    }
  });
  forget_rows(index, gone);
  return gone.size();
}

uint64_t Core::newest_step() const {
  uint64_t step = barrier_step_;
  for (const auto& table : tables) {
    step = std::max(step, table->last_step);
  }
  return step;
}

void Core::load(uint32_t index, std::span<const Id> ids, std::span<const std::byte> records) {
  Table& table = at(index);
  const uint32_t bytes = table.layout.record_bytes();
  check(records.size() == ids.size() * bytes,
        "embedding_cache: load: {} bytes for {} rows of {} bytes", records.size(), ids.size(),
        bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    check(i == 0 || ids[i - 1] < ids[i], "embedding_cache: load: ids must ascend; {} follows {}",
          ids[i], i == 0 ? 0 : ids[i - 1]);
    check(load_header(records.data() + i * bytes).updates > 0,
          "embedding_cache: load: the record of id {} states no update", ids[i]);
  }
  Lock lock(mutex_);
  const Quiet quiet(*this, lock, "load");
  flush_dirty(lock);
  check_not_older(index, ids, records.data());
  apply_rows(index, ids, records.data());
}

void Core::load_weights(uint32_t index, std::span<const Id> ids, std::span<const float> weights) {
  const RowLayout& layout = at(index).layout;
  check(weights.size() == ids.size() * layout.width(),
        "embedding_cache: load_weights: {} floats for {} rows of {}", weights.size(), ids.size(),
        layout.width());
  std::vector<std::byte> records(ids.size() * layout.record_bytes());
  for (size_t i = 0; i < ids.size(); ++i) {
    layout.begin_with(weights.data() + i * layout.width(),
                      records.data() + i * layout.record_bytes());
  }
  load(index, ids, records);
}

std::vector<Core::KnownRow> Core::known_rows(uint32_t index, std::span<const Id> ids) {
  const uint32_t bytes = at(index).layout.record_bytes();
  std::vector<std::byte> space(ids.size() * bytes);
  std::vector<std::byte*> into(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    into[i] = space.data() + i * bytes;
  }
  const auto found = std::make_unique<bool[]>(ids.size());
  read_through(tiers_, index, ids, into.data(), found.get());
  std::vector<KnownRow> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    const RowHeader header = load_header(into[i]);
    if (found[i] && header.updates > 0) {  // else host memory has its first values, to be read
      out.push_back({ids[i], header});
    }
  }
  return out;
}

std::vector<Core::KnownRow> Core::known_rows(uint32_t index, std::vector<Id>&& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<KnownRow> out;
  for (size_t begin = 0; begin < ids.size(); begin += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, ids.size() - begin);
    const std::vector<KnownRow> part = known_rows(index, std::span(ids).subspan(begin, count));
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// Rows loaded in ascending order into a fresh table are new; otherwise the store is asked.
bool Core::may_replace(const Table& table, std::span<const Id> ids) {
  return table.rows != table.loaded || (table.rows > 0 && ids.front() <= table.last_loaded);
}

void Core::check_not_older(uint32_t index, std::span<const Id> ids, const std::byte* records) {
  const Table& table = at(index);
  if (ids.empty() || !may_replace(table, ids)) {
    return;
  }
  for (const KnownRow& row : known_rows(index, ids)) {
    const auto i =
        static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), row.id) - ids.begin());
    const uint32_t step = load_header(records + i * table.layout.record_bytes()).step;
    check(step >= row.header.step,
          "embedding_cache: row {} of table \"{}\" was learned at step {}; one of step {} cannot "
          "replace it",
          row.id, table.options.name, row.header.step, step);
  }
}

// Everything is quiet and flushed. Rows replace what is there.
void Core::apply_rows(uint32_t index, std::span<const Id> ids, const std::byte* records) {
  if (ids.empty()) {
    return;
  }
  stop_sweep();  // it may have passed where older rows come now
  Table& table = *tables[index];
  const uint32_t bytes = table.layout.record_bytes();
  uint64_t known = 0;
  if (may_replace(table, ids)) {
    known = known_rows(index, ids).size();
  } else {
    *table.loaded += ids.size();
    table.last_loaded = ids.back();
  }
  std::vector<RowWrite> rows;
  rows.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    rows.push_back({index, ids[i], records + i * bytes});
  }
  write_to(tiers_, rows);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (barrier_step_ > 0 && load_header(records + i * bytes).step <= barrier_step_) {
      note_change(table, ids[i]);  // which the step of the row does not tell
    } else {
      table.tombstones.erase(ids[i]);
    }
  }
  table.rows += ids.size() - known;
  const bool filtered = table.options.admission.kind != AdmissionKind::kNone;
  for (size_t i = 0; i < ids.size() && (filtered || options.check_shadow); ++i) {
    if (filtered) {
      table.admission.add(ids[i]);
    }
    if (options.check_shadow) {
      table.shadow[ids[i]].assign(records + i * bytes, records + (i + 1) * bytes);
    }
  }
}

}  // namespace mstrain::embedding_cache
