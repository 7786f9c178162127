#include "core/io/atomic_file.h"

#include "core/base/error.h"

namespace mstrain {

AtomicFile::AtomicFile(FileSystem& files, const std::string& path)
    : files_(files),
      path_(replaced_file(path)),
      temporary_(temporary_name(path_)),
      file_(files_.open(temporary_, WriteMode::kTruncate)) {}

AtomicFile::~AtomicFile() {
  if (committed_) {
    return;
  }
  file_.reset();
  try {
    files_.remove(temporary_);
  } catch (const IoError&) {
    // Whoever did not commit has an error of his own to report; a leftover temporary harms nobody.
  }
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  file_->append(bytes);
  digest_.add(bytes);
}
void AtomicFile::sync() { file_->sync(); }
void AtomicFile::close() {
  file_->sync();
  file_->close();
}

FileSummary AtomicFile::commit() {
  check(!committed_, "{}: committed twice", path_);
  close();
  files_.rename(temporary_, path_);
  committed_ = true;
  files_.sync_directory(parent_path(path_));
  return digest_.finish();
}

FileSummary summarize_file(FileSystem& files, const std::string& path) {
  const std::unique_ptr<MappedFile> file = files.map(path);
  FileDigest digest;
  digest.add(file->bytes());
  return digest.finish();
}

}  // namespace mstrain
