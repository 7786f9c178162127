#include "suites/recommender/run/rows_folder.h"

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "embedding_cache/commit.h"

namespace mstrain::recommender {
namespace {

void print_rows(FileSystem& files, const std::string& path, std::FILE* out) {
  fmt::print(out, "{}: rows of a recommender, or a part of them (embedding cache)\n", path);
  for (const embedding_cache::CommitId id : embedding_cache::list_commit_folders(files, path)) {
    if (!embedding_cache::has_manifest(files, path, id)) {
      continue;
    }
    const embedding_cache::CommitInfo info = embedding_cache::read_manifest(files, path, id);
    fmt::print(out, "  commit {} of step {}:", id, info.step);
    for (const embedding_cache::CommitTable& table : info.tables) {
      fmt::print(out, " {} {}", table.name, grouped(static_cast<int64_t>(table.rows)));
    }
    fmt::print(out, "\n");
  }
  fmt::print(out, "ec_tool stats {} says more, and ec_tool dump shows rows\n", path);
}

}  // namespace

FolderKind rows_folder() {
  return {embedding_cache::kDirectoryMarker, "rows of a recommender", print_rows};
}

}  // namespace mstrain::recommender
