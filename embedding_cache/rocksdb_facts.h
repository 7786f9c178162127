// What each sorted file states of itself, found as it is written: its CRC-32C, which goes into a commit's manifest, and the
// newest step of its rows, so that a scan for what changed reads only files that hold some of it.
#pragma once

#include <rocksdb/options.h>
#include <rocksdb/table_properties.h>

#include <cstdint>

namespace mstrain::embedding_cache {

// Digests read "crc32c:" and eight hexadecimal digits.
void state_facts(rocksdb::Options& options);

// Of the file with these properties; the largest number where it holds deleted rows, which must hide what older files hold.
uint64_t newest_step(const rocksdb::TableProperties& properties);

}  // namespace mstrain::embedding_cache
