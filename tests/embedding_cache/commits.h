// What the tests of commits have in common.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/rehearsal.h"
#include "tests/embedding_cache/temp_directory.h"

namespace mstrain::embedding_cache {

// Warnings of one scope.
class Warnings {
 public:
  Warnings() {
    before_ = set_log_sink([this](LogLevel, std::string_view text) { lines_.emplace_back(text); });
  }
  ~Warnings() { set_log_sink(before_); }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) {
      out += line + "\n";
    }
    return out;
  }

 private:
  LogSink before_;
  std::vector<std::string> lines_;
};

// Digests after each commit of an undisturbed run, by step.
inline std::map<uint64_t, std::string> golden_digests(const Rehearsal& rehearsal, StoreKind store) {
  std::map<uint64_t, std::string> out;
  const TempDirectory directory;
  Cache cache = Cache::open(rehearsal.cache_options(directory.path(), 0.1, store));
  out[0] = cache.digest();
  for (uint64_t step = rehearsal.commit_every; step <= rehearsal.steps;
       step += rehearsal.commit_every) {
    Rehearsal part = rehearsal;
    part.steps = step;
    part.run(cache);
    out[step] = cache.digest();
  }
  return out;
}

inline std::vector<CommitId> complete_commits(const std::string& directory) {
  std::vector<CommitId> ids = list_commit_folders(real_files(), directory);
  std::erase_if(ids, [&](CommitId id) { return !has_manifest(real_files(), directory, id); });
  return ids;
}

}  // namespace mstrain::embedding_cache
