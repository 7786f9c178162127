// Opening a directory: which commit, and what it holds.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {

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
    newest_ = std::max(newest_, id);
    if (has_manifest(*files, directory, id)) {
      complete.push_back(id);
    } else {
      files->remove_all(commit_folder(directory, id));
    }
  }
  const CommitId chosen = choose_commit(wanted, complete);
  const CommitInfo info = chosen == 0 ? CommitInfo() : read_manifest(*files, directory, chosen);
  abandoned_ = info.abandoned;
  taken_ = info.taken;
  for (const CommitId id : complete) {
    uint64_t& step = (comes_from(info, id) ? kept_ : abandoned_)[id];
    try {
      step = read_manifest(*files, directory, id).step;
    } catch (const IoError&) {
      // A damaged one that was passed over: what was forgotten since stays known.
    }
  }
  if (chosen == 0) {
    open_store(nullptr);
    return;
  }
  check_same_tables(info);
  const std::string folder = commit_folder(directory, chosen);
  open_store(&info);
  const std::string state = join_path(folder, kStateFile);
  load_state(files->read(state), state);
  user_blob = files->read(join_path(folder, kUserFile));
  committed_ = chosen;
  committed_step_ = info.step;
  barrier_step_ = info.step;
  if (options.check_shadow) {
    load_shadow();
  }
}

CommitId Core::choose_commit(CommitId wanted, const std::vector<CommitId>& complete) const {
  const std::string& directory = options.directory;
  if (wanted != 0) {
    if (!std::binary_search(complete.begin(), complete.end(), wanted)) {
      throw IoError(fmt::format("{}: holds no commit {}; {}", directory, wanted,
                                complete.empty()
                                    ? std::string("it holds none")
                                    : fmt::format("it holds {} to {}", complete.front(), newest_)));
    }
    const std::vector<std::string> problems = verify_commit(*files, directory, wanted);
    if (!problems.empty()) {
      throw IoError(problems.front());
    }
    return wanted;
  }
  for (auto id = complete.rbegin(); id != complete.rend(); ++id) {
    const std::vector<std::string> problems = verify_commit(*files, directory, *id);
    if (problems.empty()) {
      return *id;
    }
    log_warning("{}{}; going back to the commit before {}", problems.front(),
                problems.size() == 1 ? std::string()
                                     : fmt::format(" (and {} more files)", problems.size() - 1),
                *id);
  }
  if (!complete.empty()) {
    throw IoError(fmt::format("{}: none of its {} commits is intact", directory, complete.size()));
  }
  return 0;
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
    check(
        from->store == name,
        "{}: its rows are in a {} store, and embedding_cache.store.kind says {}: what has begun in "
        "one store goes on in it",
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

void Core::load_state(std::string_view bytes, const std::string& name) {
  const std::vector<TableState> states = parse_state(bytes, name);
  if (states.size() != tables.size()) {
    throw IoError(
        fmt::format("{}: holds {} tables, expected {}", name, states.size(), tables.size()));
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    Table& table = *tables[t];
    table.rows = states[t].rows;
    table.rows_kept = table.rows;
    table.learned_step = states[t].last_step;
    table.last_step = table.learned_step;
    table.admission.load(states[t].admission, name);
    for (const auto& [id, step] : states[t].tombstones) {
      table.tombstones.set(id, step);
    }
    table.past.add(states[t].past);
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

}  // namespace mstrain::embedding_cache
