// Many files as one long read-only sequence of bytes, mapped into memory when touched. Any thread
// may read.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "core/data/source_files.h"

namespace mstrain {

class MappedFiles {
 public:
  // At most `max_mappings` files stay mapped: the kernel allows a process 65,530 mappings by
  // default.
  MappedFiles(FileSystem& files, std::vector<SourceFile> sources, size_t max_mappings = 4096);

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::vector<SourceFile>& sources() const { return sources_; }
  const std::vector<int64_t>& ends() const { return ends_; }  // of the files, in the sequence

  struct Piece {
    std::string_view bytes;                   // from the offset asked for to the end of its file
    size_t source = 0;                        // index of the file
    int64_t begin = 0;                        // of the file, in the sequence
    std::shared_ptr<const MappedFile> owner;  // keeps `bytes` alive
  };
  // 0 <= offset < size(). Throws IoError where the file cannot be mapped or its size has changed.
  Piece at(int64_t offset) const;

 private:
  std::shared_ptr<const MappedFile> map(size_t source) const;

  FileSystem& files_;
  std::vector<SourceFile> sources_;
  std::vector<int64_t> ends_;
  size_t max_mappings_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const MappedFile>> mapped_;
  mutable std::deque<size_t> order_;  // of mapping, oldest first
};

}  // namespace mstrain
