// One file that appears whole or not at all, with its size and digest known at the end.
#pragma once

#include <memory>
#include <string>

#include "core/base/files.h"
#include "core/io/digest.h"

namespace mstrain {

// Writes under a temporary name beside `path`, or beside what it links to (replaced_file); commit() puts it in place. Without commit, `path` is as it was and the
// temporary is removed by the destructor.
class AtomicFile final : public WritableFile {
 public:
  AtomicFile(FileSystem& files, const std::string& path);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  using WritableFile::append;
  void append(std::span<const std::byte> bytes) override;
  void sync() override;
  void close() override;  // syncs; append is an error afterwards
  FileSummary commit();   // closes, renames, syncs the directory

 private:
  FileSystem& files_;
  std::string path_;
  std::string temporary_;
  std::unique_ptr<WritableFile> file_;
  FileDigest digest_;
  bool committed_ = false;
};

// Size and digest of an existing file.
FileSummary summarize_file(FileSystem& files, const std::string& path);

}  // namespace mstrain
