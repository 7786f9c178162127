// A file system that fails on demand, for tests of everything that must survive a full, failing or powerless disk.
//
//   FaultyFiles files(real_files());
//   for (int64_t n = 0;; ++n) {                     // every fail-point in turn
//     files.reset({.fail_operation = n});
//     try { save(files); break; } catch (const IoError&) { check_that_the_old_state_is_intact(); }
//   }
//
// Each call of a FileSystem or WritableFile method that may touch the disk counts as one operation.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

struct Faults {
  int64_t fail_operation = -1;  // this operation (from 0) fails with EIO
  int64_t power_off_operation =
      -1;  // this one and all after it fail with EIO, as for a process that died there
  int64_t enospc_after_bytes = -1;  // appends beyond so many bytes in all fail with ENOSPC
  bool short_writes = false;        // an append that fails has written half of what it was given
  bool no_exchange = false;         // exchange() answers that it cannot
};

class FaultyFiles final : public FileSystem {
 public:
  explicit FaultyFiles(FileSystem& inner, const Faults& faults = {});
  ~FaultyFiles() override;

  // New faults, counters at zero; forgets what is unsynced.
  void reset(const Faults& faults = {});
  int64_t operations() const;
  int64_t bytes_written() const;

  // What a power cut may leave behind: bytes that were not synced are gone, and so are names created or renamed since
  // their directory was synced (a rename that replaced a file keeps the new name). Power is on again afterwards.
  // Removals count as durable at once.
  void crash();

  std::string read(const std::string& path, uint64_t max_bytes) override;
  std::unique_ptr<MappedFile> map(const std::string& path) override;
  std::unique_ptr<WritableFile> open(const std::string& path, WriteMode mode) override;
  std::unique_ptr<PlacedFile> open_placed(const std::string& path) override;
  bool exists(const std::string& path) override;
  bool is_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& directory) override;
  uint64_t file_size(const std::string& path) override;
  uint64_t free_space(const std::string& path) override;
  void create_directories(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  bool exchange(const std::string& a, const std::string& b) override;
  void truncate(const std::string& path, uint64_t size) override;
  void remove(const std::string& path) override;
  void remove_all(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path) override;

 private:
  friend class FaultyWritableFile;
  friend class FaultyPlacedFile;

  // A file with bytes that a crash would lose.
  struct Unsynced {
    std::string path;
    uint64_t durable_size;
  };
  // A change of names that a crash would undo: created (`from` empty), renamed, or exchanged.
  struct NameChange {
    std::string from;
    std::string to;
    bool exchanged = false;
  };

  void operation(const std::string& path, const char* what);
  // How much of `size` bytes a write may write before it fails; a crash leaves `durable_size` of the file.
  uint64_t admit_write(const std::string& path, uint64_t size, uint64_t durable_size, bool& fails);
  void mark_written(const std::string& path, uint64_t durable_size);
  void mark_synced(const std::string& path);
  void move_names(const std::string& from, const std::string& to);
  void forget_below(const std::string& path);

  FileSystem& inner_;
  mutable std::mutex mutex_;
  Faults faults_;
  int64_t operations_ = 0;
  int64_t bytes_ = 0;
  std::vector<Unsynced> unsynced_;
  std::vector<NameChange> changes_;
};

}  // namespace mstrain
