// RocksDB on a FileSystem: where the cache is given one of its own, RocksDB's files go through it as well, by plain reads and
// appends: slower than RocksDB's own ways, which are taken on the real one. Hard links, which a FileSystem does not know,
// become copies.
#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <string>

#include "core/base/files.h"

namespace mstrain::embedding_cache {

// `files` must outlive it.
std::unique_ptr<rocksdb::Env> env_of(FileSystem& files);

// A durable copy. Throws IoError, as does the next one.
void copy_file(FileSystem& files, const std::string& source, const std::string& target);
// A second name for a file that no longer changes; a durable copy where there can be none.
void link_or_copy(FileSystem& files, const std::string& source, const std::string& target);

}  // namespace mstrain::embedding_cache
