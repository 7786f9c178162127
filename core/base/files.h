// The file system as a seam: everything that must survive a full or failing disk writes through a FileSystem, so that
// tests put core/base/files_fault.h in its place. Paths are std::string; std::filesystem::path converts both ways.
// Every failure throws IoError with the path, the operation and the errno. Methods are thread-safe; one WritableFile is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/paths.h"

namespace mstrain {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Append-only. Data is durable once sync() returned, and the name once the directory was synced too.
// After an error the content past the last sync is undefined. The destructor closes without sync and never throws.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;  // reports delayed write errors; append and sync are errors afterwards
  void append(std::string_view text) { append(as_bytes(text)); }
};

// Writes anywhere in an existing file, of which others may write other bytes meanwhile. Data is durable once sync() returned.
// The destructor closes without sync and never throws.
class PlacedFile {
 public:
  virtual ~PlacedFile() = default;
  virtual void write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;  // as of a WritableFile
};

// Read-only view of a whole file; valid while the object lives. Cutting the file short meanwhile makes reads fault.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

// Held until destroyed; the operating system drops it when the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class WriteMode { kTruncate, kAppend };  // both create a missing file

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The whole file; an error if it is larger than `max_bytes`.
  virtual std::string read(const std::string& path,
                           uint64_t max_bytes = std::numeric_limits<uint64_t>::max()) = 0;
  virtual std::unique_ptr<MappedFile> map(const std::string& path) = 0;
  virtual std::unique_ptr<WritableFile> open(const std::string& path, WriteMode mode) = 0;
  virtual std::unique_ptr<PlacedFile> open_placed(const std::string& path) = 0;  // must exist

  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;  // false where nothing exists
  virtual std::vector<std::string> list(const std::string& directory) = 0;  // names, sorted
  virtual uint64_t file_size(const std::string& path) = 0;
  virtual uint64_t free_space(const std::string& path) = 0;  // bytes that this user may still write

  virtual void create_directories(const std::string& path) = 0;             // no error if it exists
  virtual void rename(const std::string& from, const std::string& to) = 0;  // replaces a file
  // Swaps two existing entries in one step. Returns false, with nothing changed, where the file system cannot.
  virtual bool exchange(const std::string& a, const std::string& b) = 0;
  virtual void truncate(const std::string& path, uint64_t size) = 0;
  virtual void remove(const std::string& path) = 0;      // a file or an empty directory; must exist
  virtual void remove_all(const std::string& path) = 0;  // no error if missing; follows no links
  virtual void sync_directory(const std::string& path) = 0;

  // Takes the lock of `path` (created if missing) or returns null at once when anyone, in this process or another, holds it.
  virtual std::unique_ptr<FileLock> try_lock(const std::string& path) = 0;
};

FileSystem& real_files();

// Creates what is missing of `path` such that a crash does not undo it.
void create_directories_durably(FileSystem& files, const std::string& path);

// The file that is replaced where `path` is written as a whole: what links point at. Throws IoError where that is a folder, a
// device or a pipe.
std::string replaced_file(const std::string& path);

// Writes under a temporary name beside `path`, or beside what it links to, syncs, renames, syncs the directory: `path` holds the old or the new bytes.
void write_file_atomic(FileSystem& files, const std::string& path,
                       std::span<const std::byte> bytes);
inline void write_file_atomic(FileSystem& files, const std::string& path, std::string_view text) {
  write_file_atomic(files, path, as_bytes(text));
}

}  // namespace mstrain
