#include "core/base/files_fault.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace mstrain {
namespace {

[[noreturn]] void fail_with(const std::string& path, std::string_view what, int error) {
  throw IoError(fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)), error);
}

bool is_at_or_below(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/');
}

void move_name(std::string& path, const std::string& from, const std::string& to) {
  if (is_at_or_below(path, from)) {
    path = to + path.substr(from.size());
  }
}

}  // namespace

class FaultyWritableFile final : public WritableFile {
 public:
  FaultyWritableFile(FaultyFiles& files, std::string path, std::unique_ptr<WritableFile> inner)
      : files_(files), path_(std::move(path)), inner_(std::move(inner)) {}

  using WritableFile::append;
  void append(std::span<const std::byte> bytes) override {
    files_.operation(path_, "write");
    bool fails = false;
    const uint64_t admitted =
        files_.admit_write(path_, bytes.size(), files_.inner_.file_size(path_), fails);
    inner_->append(bytes.first(admitted));
    if (fails) {
      fail_with(path_, "write", ENOSPC);
    }
  }
  void sync() override {
    files_.operation(path_, "sync");
    inner_->sync();
    files_.mark_synced(path_);
  }
  void close() override {
    files_.operation(path_, "close");
    inner_->close();
  }

 private:
  FaultyFiles& files_;
  std::string path_;
  std::unique_ptr<WritableFile> inner_;
};

// A crash leaves nothing of a file with placed writes that were not synced: any of its bytes may be gone.
class FaultyPlacedFile final : public PlacedFile {
 public:
  FaultyPlacedFile(FaultyFiles& files, std::string path, std::unique_ptr<PlacedFile> inner)
      : files_(files), path_(std::move(path)), inner_(std::move(inner)) {}

  void write(uint64_t offset, std::span<const std::byte> bytes) override {
    files_.operation(path_, "write");
    bool fails = false;
    const uint64_t admitted = files_.admit_write(path_, bytes.size(), 0, fails);
    inner_->write(offset, bytes.first(admitted));
    if (fails) {
      fail_with(path_, "write", ENOSPC);
    }
  }
  void sync() override {
    files_.operation(path_, "sync");
    inner_->sync();
    files_.mark_synced(path_);
  }
  void close() override {
    files_.operation(path_, "close");
    inner_->close();
  }

 private:
  FaultyFiles& files_;
  std::string path_;
  std::unique_ptr<PlacedFile> inner_;
};

FaultyFiles::FaultyFiles(FileSystem& inner, const Faults& faults)
    : inner_(inner), faults_(faults) {}
FaultyFiles::~FaultyFiles() = default;

void FaultyFiles::reset(const Faults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
  operations_ = 0;
  bytes_ = 0;
  unsynced_.clear();
  changes_.clear();
}

int64_t FaultyFiles::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}
int64_t FaultyFiles::bytes_written() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void FaultyFiles::operation(const std::string& path, const char* what) {
  const std::lock_guard lock(mutex_);
  const int64_t number = operations_++;
  if (number == faults_.fail_operation ||
      (faults_.power_off_operation >= 0 && number >= faults_.power_off_operation)) {
    fail_with(path, what, EIO);
  }
}

uint64_t FaultyFiles::admit_write(const std::string& path, uint64_t size, uint64_t durable_size,
                                  bool& fails) {
  const std::lock_guard lock(mutex_);
  uint64_t admitted = size;
  if (faults_.enospc_after_bytes >= 0) {
    const auto left =
        static_cast<uint64_t>(std::max<int64_t>(faults_.enospc_after_bytes - bytes_, 0));
    if (size > left) {
      fails = true;
      admitted = faults_.short_writes ? std::min(left, size / 2) : 0;
    }
  }
  bytes_ += static_cast<int64_t>(admitted);
  mark_written(path, durable_size);
  return admitted;
}

void FaultyFiles::mark_written(const std::string& path, uint64_t durable_size) {
  const bool known = std::any_of(unsynced_.begin(), unsynced_.end(),
                                 [&](const Unsynced& file) { return file.path == path; });
  if (!known) {
    unsynced_.push_back({path, durable_size});
  }
}

void FaultyFiles::mark_synced(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::erase_if(unsynced_, [&](const Unsynced& file) { return file.path == path; });
}

void FaultyFiles::move_names(const std::string& from, const std::string& to) {
  for (Unsynced& file : unsynced_) {
    move_name(file.path, from, to);
  }
  for (NameChange& change : changes_) {
    move_name(change.from, from, to);
    move_name(change.to, from, to);
  }
}

void FaultyFiles::forget_below(const std::string& path) {
  std::erase_if(unsynced_, [&](const Unsynced& file) { return is_at_or_below(file.path, path); });
  std::erase_if(changes_, [&](const NameChange& change) {
    return change.from.empty() && is_at_or_below(change.to, path);
  });
}

void FaultyFiles::crash() {
  const std::lock_guard lock(mutex_);
  for (const Unsynced& file : unsynced_) {
    if (inner_.exists(file.path) && inner_.file_size(file.path) > file.durable_size) {
      inner_.truncate(file.path, file.durable_size);
    }
  }
  unsynced_.clear();
  while (!changes_.empty()) {
    const NameChange change = changes_.back();
    changes_.pop_back();
    if (change.from.empty()) {
      inner_.remove_all(change.to);
    } else if (change.exchanged && !inner_.exists(change.from)) {
      // The old folder was removed before the exchange was durable: worst case, nothing is left under its name.
      inner_.rename(change.to, change.from);
    } else if (change.exchanged) {
      inner_.exchange(change.from, change.to);
      const std::string aside = temporary_name(change.from);
      move_names(change.from, aside);
      move_names(change.to, change.from);
      move_names(aside, change.to);
    } else if (inner_.exists(change.to) && !inner_.exists(change.from)) {
      inner_.rename(change.to, change.from);
      move_names(change.to, change.from);
    }
  }
  faults_ = {};
}

std::string FaultyFiles::read(const std::string& path, uint64_t max_bytes) {
  operation(path, "read");
  return inner_.read(path, max_bytes);
}
std::unique_ptr<MappedFile> FaultyFiles::map(const std::string& path) {
  operation(path, "map");
  return inner_.map(path);
}

std::unique_ptr<WritableFile> FaultyFiles::open(const std::string& path, WriteMode mode) {
  operation(path, "open for writing");
  const std::lock_guard lock(mutex_);
  const bool existed = inner_.exists(path);
  auto file = inner_.open(path, mode);
  if (!existed) {
    changes_.push_back({"", path});
  }
  return std::make_unique<FaultyWritableFile>(*this, path, std::move(file));
}

std::unique_ptr<PlacedFile> FaultyFiles::open_placed(const std::string& path) {
  operation(path, "open for writing");
  return std::make_unique<FaultyPlacedFile>(*this, path, inner_.open_placed(path));
}

bool FaultyFiles::exists(const std::string& path) {
  operation(path, "look up");
  return inner_.exists(path);
}
bool FaultyFiles::is_directory(const std::string& path) {
  operation(path, "look up");
  return inner_.is_directory(path);
}
std::vector<std::string> FaultyFiles::list(const std::string& directory) {
  operation(directory, "list");
  return inner_.list(directory);
}
uint64_t FaultyFiles::file_size(const std::string& path) {
  operation(path, "look up");
  return inner_.file_size(path);
}
uint64_t FaultyFiles::free_space(const std::string& path) {
  operation(path, "measure free space");
  return inner_.free_space(path);
}

void FaultyFiles::create_directories(const std::string& path) {
  operation(path, "create directory");
  const std::lock_guard lock(mutex_);
  // The highest directory that is missing: with it goes all below.
  std::string highest;
  for (std::string at = path; !inner_.exists(at); at = parent_path(at)) {
    highest = at;
  }
  inner_.create_directories(path);
  if (!highest.empty()) {
    changes_.push_back({"", highest});
  }
}

void FaultyFiles::rename(const std::string& from, const std::string& to) {
  operation(from, "rename");
  const std::lock_guard lock(mutex_);
  const bool replaces = inner_.exists(to);
  inner_.rename(from, to);
  if (replaces) {
    forget_below(to);
  }
  move_names(from, to);
  if (replaces) {
    std::erase_if(changes_,
                  [&](const NameChange& change) { return change.from.empty() && change.to == to; });
  } else {
    changes_.push_back({from, to});
  }
}

bool FaultyFiles::exchange(const std::string& a, const std::string& b) {
  operation(a, "exchange");
  const std::lock_guard lock(mutex_);
  if (faults_.no_exchange || !inner_.exchange(a, b)) {
    return false;
  }
  const std::string aside = temporary_name(a);
  move_names(a, aside);
  move_names(b, a);
  move_names(aside, b);
  changes_.push_back({a, b, true});
  return true;
}

void FaultyFiles::truncate(const std::string& path, uint64_t size) {
  operation(path, "truncate");
  inner_.truncate(path, size);
}
void FaultyFiles::remove(const std::string& path) {
  operation(path, "remove");
  const std::lock_guard lock(mutex_);
  inner_.remove(path);
  forget_below(path);
}
void FaultyFiles::remove_all(const std::string& path) {
  operation(path, "remove");
  const std::lock_guard lock(mutex_);
  inner_.remove_all(path);
  forget_below(path);
}

void FaultyFiles::sync_directory(const std::string& path) {
  operation(path, "sync directory");
  const std::lock_guard lock(mutex_);
  inner_.sync_directory(path);
  std::erase_if(changes_, [&](const NameChange& change) { return parent_path(change.to) == path; });
}

std::unique_ptr<FileLock> FaultyFiles::try_lock(const std::string& path) {
  operation(path, "lock");
  return inner_.try_lock(path);
}

}  // namespace mstrain
