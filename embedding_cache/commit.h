// Commits on disk. <directory>/commits/<id>/ holds rows/ (a checkpoint of the store), state.bin (admission, tombstones, counters),
// user.bin (the caller's) and MANIFEST.json, written last and renamed into place: a commit without its manifest does not exist.
// The manifest names each file with size and digest and ends in a line with its own SHA-256.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "embedding_cache/row.h"
#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {

inline constexpr const char* kStateFile = "state.bin";
inline constexpr const char* kUserFile = "user.bin";

struct CommitTable {
  std::string name;
  std::string schema;
  uint64_t rows = 0;
};

struct CommitAt {
  CommitId id = 0;  // 0: none
  uint64_t step = 0;
};

struct CommitInfo {
  CommitId id = 0;
  CommitId parent = 0;  // what the run had resumed from or committed before
  uint64_t step = 0;
  uint64_t seed = 0;
  std::string store;
  std::string options;  // YAML
  // Older ones that it does not come from, and their steps (0: not known), removed ones too, of which copies and readers may have rows.
  std::map<CommitId, uint64_t> abandoned;
  CommitAt taken;  // where the last delta that was imported comes from, in its own cache
  std::vector<CommitTable> tables;
  std::vector<StoreFile> files;  // names relative to the commit's folder
};

// Whether `commit` is `older` or comes from it: else the run has gone back to what was before `older` since, and no steps tell the difference.
bool comes_from(const CommitInfo& commit, CommitId older);
// What manifests and deltas say of it. Taking throws Json::exception.
void put_line(OrderedJson& json, const std::map<CommitId, uint64_t>& abandoned, const char* key,
              const CommitAt& at);
void take_line(const Json& json, std::map<CommitId, uint64_t>& abandoned, const char* key,
               CommitAt& at);

// state.bin: what a table is besides its rows.
struct TableState {
  uint64_t rows = 0;
  uint64_t last_step = 0;
  std::string admission;                            // as AdmissionFilter::save gives it
  std::vector<std::pair<Id, uint64_t>> tombstones;  // id, step; ascending
  std::vector<PastStep> past;
};
std::string print_state(const std::vector<TableState>& tables);
std::vector<TableState> parse_state(std::string_view bytes, const std::string& name);

inline constexpr const char* kDirectoryMarker = "EMBEDDING_CACHE";  // a file in each

// Creates the directory where it is missing. Throws Error for one that is not empty and was not made by this library, or whose form is
// another version's.
void claim_directory(FileSystem& files, const std::string& directory);
// Whether it is one, of whatever form.
bool is_cache_directory(FileSystem& files, const std::string& directory);
void require_directory(FileSystem& files, const std::string& directory);

std::string commit_folder(const std::string& directory, CommitId id);
// Folders of commits, complete or not, ascending.
std::vector<CommitId> list_commit_folders(FileSystem& files, const std::string& directory);
bool has_manifest(FileSystem& files, const std::string& directory, CommitId id);

// Makes the folder's content a commit.
void write_manifest(FileSystem& files, const std::string& directory, const CommitInfo& info);
CommitInfo read_manifest(FileSystem& files, const std::string& directory, CommitId id);
CommitInfo parse_manifest(std::string_view text, const std::string& name);
// What is wrong with a commit, one line each; empty when every file has its size and digest.
std::vector<std::string> verify_commit(FileSystem& files, const std::string& directory,
                                       CommitId id);
// Removes the manifest: what is left is no commit any more, and opening the directory clears it away.
void retract_commit(FileSystem& files, const std::string& directory, CommitId id);
// And then the rest.
void remove_commit(FileSystem& files, const std::string& directory, CommitId id);

}  // namespace mstrain::embedding_cache
