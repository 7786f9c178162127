// Opening a directory, writing commits into it, and forgetting rows.
#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/log.h"
#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

constexpr const char* kState = "state.bin";
constexpr const char* kUser = "user.bin";
constexpr size_t kDeletesAtOnce = 65536;

StoreFile write_file(FileSystem& files, const std::string& folder, const std::string& name,
                     std::string_view content) {
  const auto file = files.open(join_path(folder, name), WriteMode::kTruncate);
  file->append(content);
  file->sync();
  file->close();
  return summarise_store_file(files, folder, name);
}

}  // namespace

void Core::open(CommitId wanted) {
  const std::string& directory = options.directory;
  if (directory.empty()) {
    check(wanted == 0, "embedding_cache: commit {} is asked for, but no directory is given",
          wanted);
    open_store(nullptr);
    return;
  }
  claim_directory(*files, directory);
  lock_file_ = files->try_lock(join_path(directory, "LOCK"));
  if (lock_file_ == nullptr) {
    throw IoError(fmt::format("{}: in use by another embedding cache", directory));
  }
  std::vector<CommitId> complete;
  for (const CommitId id : list_commit_folders(*files, directory)) {
    newest = std::max(newest, id);
    if (has_manifest(*files, directory, id)) {
      complete.push_back(id);
    } else {
      files->remove_all(commit_folder(directory, id));
    }
  }
  CommitId chosen = wanted;
  if (wanted != 0) {
    if (!std::binary_search(complete.begin(), complete.end(), wanted)) {
      throw IoError(fmt::format("{}: holds no commit {}; {}", directory, wanted,
                                complete.empty()
                                    ? std::string("it holds none")
                                    : fmt::format("it holds {} to {}", complete.front(), newest)));
    }
    const std::vector<std::string> problems = verify_commit(*files, directory, wanted);
    if (!problems.empty()) {
      throw IoError(problems.front());
    }
  } else {
    for (auto id = complete.rbegin(); id != complete.rend() && chosen == 0; ++id) {
      const std::vector<std::string> problems = verify_commit(*files, directory, *id);
      if (problems.empty()) {
        chosen = *id;
        break;
      }
      log_warning("{}{}; going back to the commit before {}", problems.front(),
                  problems.size() == 1 ? std::string()
                                       : fmt::format(" (and {} more files)", problems.size() - 1),
                  *id);
    }
    if (chosen == 0 && !complete.empty()) {
      throw IoError(
          fmt::format("{}: none of its {} commits is intact", directory, complete.size()));
    }
  }
  for (const CommitId id : complete) {
    (id > chosen ? abandoned_ : kept_).push_back(id);
  }
  if (chosen == 0) {
    open_store(nullptr);
    return;
  }
  const CommitInfo info = read_manifest(*files, directory, chosen);
  check_same_tables(info);
  const std::string folder = commit_folder(directory, chosen);
  open_store(&info);
  const std::string state = join_path(folder, kState);
  load_state(files->read(state), state);
  user_blob = files->read(join_path(folder, kUser));
  committed = chosen;
  committed_step = info.step;
  if (options.check_shadow) {
    load_shadow();
  }
}

void Core::check_same_tables(const CommitInfo& info) const {
  const std::string where = commit_folder(options.directory, info.id);
  const auto require = [&](bool condition, const std::string& message) {
    if (!condition) {
      throw Error(where + ": " + message);
    }
  };
  require(info.seed == options.seed,
          fmt::format("made with seed {}, the options say {}", info.seed, options.seed));
  require(info.tables.size() == tables.size(),
          fmt::format("holds {} tables, the options name {}", info.tables.size(), tables.size()));
  for (size_t t = 0; t < tables.size(); ++t) {
    require(info.tables[t].name == tables[t]->options.name,
            fmt::format("table {} is \"{}\", the options say \"{}\"", t, info.tables[t].name,
                        tables[t]->options.name));
    require(info.tables[t].schema == tables[t]->layout.schema(),
            fmt::format("rows of table \"{}\" are [{}], the options say [{}]", info.tables[t].name,
                        info.tables[t].schema, tables[t]->layout.schema()));
  }
}

void Core::open_store(const CommitInfo* from) {
  StoreKind kind = options.store.kind;
  if (kind == StoreKind::kAuto) {
    const bool disk =
        from != nullptr ? from->store == "rocksdb" : has_rocksdb() && !options.directory.empty();
    kind = disk ? StoreKind::kRocksdb : StoreKind::kMemory;
  }
  const char* name = kind == StoreKind::kRocksdb ? "rocksdb" : "memory";
  std::string rows;
  if (from != nullptr) {
    check(from->store == name, "{}: its rows are in a {} store, the options say {}",
          commit_folder(options.directory, from->id), from->store, name);
    rows = join_path(commit_folder(options.directory, from->id), "rows");
  }
  if (kind == StoreKind::kMemory) {
    store_ = open_memory_store(context_, rows);
  } else {
    check(!options.directory.empty(), "embedding_cache: a rocksdb store needs a directory");
    store_ = open_rocksdb_store(context_, join_path(options.directory, "live"), rows);
  }
  tiers_ = {&host_, store_.get()};
}

std::string Core::save_state() const {
  std::vector<TableState> states;
  for (const auto& table : tables) {
    TableState state{
        .rows = table->rows, .last_step = table->last_step, .admission = table->admission.save()};
    table->tombstones.each([&](Id id, uint64_t step) { state.tombstones.emplace_back(id, step); });
    std::sort(state.tombstones.begin(), state.tombstones.end());
    states.push_back(std::move(state));
  }
  return print_state(states);
}

void Core::load_state(std::string_view bytes, const std::string& name) {
  const std::vector<TableState> states = parse_state(bytes, name);
  if (states.size() != tables.size()) {
    throw IoError(
        fmt::format("{}: holds {} tables, expected {}", name, states.size(), tables.size()));
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    Table& table = *tables[t];
    table.rows = states[t].rows;
    table.last_step = states[t].last_step;
    table.admission.load(states[t].admission, name);
    for (const auto& [id, step] : states[t].tombstones) {
      table.tombstones.set(id, step);
    }
  }
}

void Core::load_shadow() {
  for (uint32_t t = 0; t < tables.size(); ++t) {
    Table& table = *tables[t];
    store_->scan(t, [&](Id id, const std::byte* record) {
      table.shadow[id].assign(record, record + table.layout.record_bytes());
    });
  }
}

CommitId Core::prepare(uint64_t step, std::span<const std::byte> blob) {
  Lock lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  check(!options.directory.empty(), "embedding_cache: a commit needs options.directory");
  require_quiet(lock, "commit");
  check(step <= 0xffffffffU && step >= committed_step,
        "embedding_cache: commit of step {} after commit {} of step {}", step, committed,
        committed_step);
  for (const auto& table : tables) {
    check(table->last_step <= step,
          "embedding_cache: commit of step {}, but table \"{}\" has learned step {}", step,
          table->options.name, table->last_step);
  }
  flush_dirty(lock);
  const CommitId id = newest + 1;
  const std::string folder = commit_folder(options.directory, id);
  try {
    files->remove_all(folder);
    files->create_directories(folder);
    CommitInfo info{.id = id,
                    .parent = committed,
                    .step = step,
                    .seed = options.seed,
                    .store = store_->name(),
                    .options = print_options(options)};
    for (const auto& table : tables) {
      info.tables.push_back({table->options.name, table->layout.schema(), table->rows});
    }
    info.files = store_->checkpoint(join_path(folder, "rows"));
    for (StoreFile& file : info.files) {
      file.name = "rows/" + file.name;
    }
    info.files.push_back(write_file(*files, folder, kState, save_state()));
    info.files.push_back(write_file(*files, folder, kUser, as_text(blob)));
    write_manifest(*files, options.directory, info);
  } catch (...) {
    try {
      remove_commit(*files, options.directory, id);
    } catch (const IoError&) {
      // The first error is the one to report; opening removes folders without a manifest.
    }
    throw;
  }
  newest = id;
  committed = id;
  committed_step = step;
  kept_.push_back(id);
  user_blob = as_text(blob);
  times_.commit_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return id;
}

void Core::commit(CommitId id) {
  const std::lock_guard lock(mutex_);
  require_healthy();
  check(std::binary_search(kept_.begin(), kept_.end(), id),
        "embedding_cache: there is no prepared commit {}", id);
  // Where removing fails, the commits are intact all the same and are removed next time.
  const auto remove = [&](CommitId old) {
    try {
      remove_commit(*files, options.directory, old);
      return true;
    } catch (const IoError& error) {
      log_warning("{}; commit {} could not be removed", error.what(), old);
      return false;
    }
  };
  std::erase_if(abandoned_, remove);
  const size_t place =
      static_cast<size_t>(std::lower_bound(kept_.begin(), kept_.end(), id) - kept_.begin());
  const auto keep = static_cast<size_t>(options.keep);
  for (size_t excess = place + 1 > keep ? place + 1 - keep : 0; excess > 0; --excess) {
    if (!remove(kept_.front())) {
      break;
    }
    kept_.erase(kept_.begin());
  }
}

uint64_t Core::evict(uint64_t step) {
  Lock lock(mutex_);
  require_quiet(lock, "evict");
  flush_dirty(lock);
  uint64_t total = 0;
  for (uint32_t t = 0; t < tables.size(); ++t) {
    const EvictionOptions& rule = tables[t]->options.eviction;
    if (rule.ttl_steps == 0) {
      continue;
    }
    std::vector<std::pair<uint32_t, Id>> old;  // step, id: the oldest go first, equals by id
    store_->scan(t, [&](Id id, const std::byte* record) {
      const uint32_t last = load_header(record).step;
      if (uint64_t{last} + rule.ttl_steps <= step) {
        old.emplace_back(last, id);
      }
    });
    const uint64_t rows = tables[t]->rows;
    const uint64_t most = rows > rule.min_keep_rows ? rows - rule.min_keep_rows : 0;
    std::sort(old.begin(), old.end());
    old.resize(std::min<size_t>(old.size(), most));
    std::vector<Id> ids(old.size());
    std::transform(old.begin(), old.end(), ids.begin(), [](const auto& row) { return row.second; });
    std::sort(ids.begin(), ids.end());
    forget_rows(t, ids, step);
    total += ids.size();
  }
  return total;
}

// Rows that exist, ascending. The store and the host tier hold the same.
void Core::forget_rows(uint32_t index, std::span<const Id> ids, uint64_t step) {
  Table& table = *tables[index];
  for (size_t begin = 0; begin < ids.size(); begin += kDeletesAtOnce) {
    const auto part = ids.subspan(begin, std::min(kDeletesAtOnce, ids.size() - begin));
    std::vector<RowWrite> deletes;
    for (const Id id : part) {
      deletes.push_back({index, id, nullptr});
    }
    write_to(tiers_, deletes);
    for (const Id id : part) {
      // Later than the last commit, so that a delta since that one tells it.
      table.tombstones.set(id, std::max(step, committed_step + 1));
      table.admission.forget(id);
      table.shadow.erase(id);
    }
    table.rows -= part.size();
  }
}

}  // namespace mstrain::embedding_cache
