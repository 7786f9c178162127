#include "embedding_cache/commit_store.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"

namespace mstrain::embedding_cache {
namespace {

CommitInfo choose_commit(FileSystem& files, const std::string& directory, CommitId wanted) {
  std::vector<CommitId> ids = list_commit_folders(files, directory);
  std::reverse(ids.begin(), ids.end());
  for (const CommitId id : ids) {
    if ((wanted != 0 && id != wanted) || !has_manifest(files, directory, id)) {
      continue;
    }
    const std::vector<std::string> problems = verify_commit(files, directory, id);
    if (problems.empty()) {
      return read_manifest(files, directory, id);
    }
    if (wanted != 0) {
      throw IoError(problems.front());
    }
    log_warning("{}; going back to the commit before {}", problems.front(), id);
  }
  throw IoError(wanted == 0 ? fmt::format("{}: holds no intact commit", directory)
                            : fmt::format("{}: holds no commit {}", directory, wanted));
}

}  // namespace

uint32_t CommitStore::table(std::string_view name) const {
  std::vector<std::string> names;
  for (uint32_t t = 0; t < options.tables.size(); ++t) {
    if (options.tables[t].name == name) {
      return t;
    }
    names.push_back(options.tables[t].name);
  }
  fail("embedding_cache: no table is called \"{}\"{}", name, did_you_mean(name, names));
}

void CommitStore::scan(uint32_t index, uint64_t after_step, const RowVisitor& visit) const {
  std::vector<std::byte> space;
  store->scan(index, after_step, [&](Id id, const std::byte* record) {
    visit(id, pasts[index].caught_up(record, space));
  });
}

CommitStore open_commit(FileSystem& files, const std::string& directory, CommitId id,
                        int read_threads, bool direct_io) {
  require_directory(files, directory);
  CommitStore out;
  out.info = choose_commit(files, directory, id);
  const std::string folder = commit_folder(directory, out.info.id);
  out.options = parse_options(out.info.options, folder + "/MANIFEST.json: options");
  out.pool = std::make_unique<ThreadPool>(read_threads);
  StoreContext context{.options = out.options.store, .files = &files, .workers = out.pool.get()};
  context.options.direct_io = direct_io;
  for (const TableOptions& table : out.options.tables) {
    out.layouts.emplace_back(table);
    context.record_bytes.push_back(out.layouts.back().record_bytes());
  }
  const std::string rows = join_path(folder, "rows");
  out.store = out.info.store == "rocksdb" ? open_rocksdb_read_only(context, rows)
                                          : open_memory_store(context, rows);
  for (const RowLayout& layout : out.layouts) {
    out.pasts.emplace_back(layout);
  }
  if (std::any_of(out.layouts.begin(), out.layouts.end(),
                  [](const RowLayout& layout) { return layout.learns_always(); })) {
    const std::string state = join_path(folder, kStateFile);
    const std::vector<TableState> states = parse_state(files.read(state), state);
    for (size_t t = 0; t < out.pasts.size(); ++t) {
      out.pasts[t].add(states.at(t).past);
    }
  }
  return out;
}

}  // namespace mstrain::embedding_cache
