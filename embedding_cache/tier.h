// A level where records live: host memory, which is the first, and below it a store. Reads and writes return when they are done; who must not
// wait for them calls from another thread. What a batch needs is brought up into host memory, where it is used in place; what finds no room
// there sinks to the store, which holds everything else.
// Errors are IoError with the tier's name, the operation, how many rows, and the errno where there is one.
#pragma once

#include <cstddef>
#include <span>

#include "embedding_cache/options.h"

namespace mstrain::embedding_cache {

// A row to be written, or deleted where `record` is null.
struct RowWrite {
  uint32_t table;
  Id id;
  const std::byte* record;
};

class Tier {
 public:
  virtual ~Tier() = default;
  virtual const char* name() const = 0;

  // Copies the record of each of `ids` (ascending, of one table) to into[i], and sets found[i]. Where there is none, into[i] is as it was.
  virtual void read(uint32_t table, std::span<const Id> ids, std::byte* const* into,
                    bool* found) = 0;
  // Takes over newer records. `rows` ascend by (table, id) and are distinct. When this returns, read finds them or, in a tier that is not
  // the last one, nothing: never what they were before.
  virtual void write(std::span<const RowWrite> rows) = 0;
};

// Reads each id from the first of `tiers` that has it.
void read_through(std::span<Tier* const> tiers, uint32_t table, std::span<const Id> ids,
                  std::byte* const* into, bool* found);
// Writes from the last tier to the first, so that none is ever ahead of those below it.
void write_through(std::span<Tier* const> tiers, std::span<const RowWrite> rows);

}  // namespace mstrain::embedding_cache
