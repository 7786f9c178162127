// A file of rows and tombstones that goes from one cache to another. Little-endian: "MSECDEL1", length of the head (u32), the head as
// JSON; blocks of table (u32), kind (u32: 1 rows, 2 tombstones), count (u64), ids (u64 each), for rows also count x row bytes; a block
// of table 0xffffffff ends it; last the CRC-32C of everything before (u32). Rows are whole records, or weights alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/io/atomic_file.h"
#include "embedding_cache/commit.h"
#include "embedding_cache/row_store.h"

namespace mstrain::embedding_cache {

struct DeltaTable {
  std::string name;
  std::string schema;
  uint32_t width = 0;      // weights of a row
  uint32_t row_bytes = 0;  // of a row in this file
};

struct DeltaHead {
  CommitId since = 0;
  uint64_t since_step = 0;
  uint64_t step = 0;
  bool with_state = true;
  CommitAt at;                             // the newest commit where it was made
  std::map<CommitId, uint64_t> abandoned;  // as there
  std::vector<DeltaTable> tables;
};

// Throws Error for a delta since a commit of a cache that has gone back to what was before `has`, from which whoever takes it comes: steps do
// not tell. Nor does the number alone, since rows that were imported have commits with numbers of their own.
void check_line(const DeltaHead& head, const std::string& path, const char* who, CommitAt has);

// Appears under its name with finish(); before that nothing is there.
class DeltaWriter {
 public:
  DeltaWriter(FileSystem& files, const std::string& path, const DeltaHead& head);
  // Of a table in `store`, the rows that learned since, and what has become of the ids that `changed` (id, step) has of later steps: a row, or a
  // tombstone.
  void add_table(uint32_t table, RowStore& store, uint32_t record_bytes,
                 std::span<const std::pair<Id, uint64_t>> changed);
  void finish();
  uint64_t rows() const { return rows_; }
  uint64_t tombstones() const { return tombstones_; }

 private:
  void add(uint32_t table, Id id, const std::byte* record);
  void add_tombstone(uint32_t table, Id id);
  void flush();
  void write(std::string_view bytes);

  AtomicFile file_;
  DeltaHead head_;
  uint32_t crc_ = 0;
  uint32_t table_ = 0;
  uint32_t kind_ = 0;
  std::string ids_;
  std::string payload_;
  uint64_t pending_ = 0;
  uint64_t rows_ = 0;
  uint64_t tombstones_ = 0;
};

// Ids of one block, ascending, with their rows one after another; `rows` is null for tombstones.
using DeltaVisitor =
    std::function<void(uint32_t table, std::span<const Id> ids, const std::byte* rows)>;

// The whole file is checked before the visitor sees anything. Throws IoError that starts with the path.
class DeltaReader {
 public:
  DeltaReader(FileSystem& files, const std::string& path);
  const DeltaHead& head() const { return head_; }
  void read(const DeltaVisitor& visit) const;

 private:
  void walk(const DeltaVisitor* visit) const;
  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::span<const std::byte> body_;  // the blocks
  DeltaHead head_;
};

}  // namespace mstrain::embedding_cache
