#include "core/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"

#ifdef __linux__
#include <linux/fs.h>
#include <linux/magic.h>
#endif

namespace mstrain {
namespace {

[[noreturn]] void throw_errno(std::string_view path, std::string_view operation, int error) {
  throw IoError(fmt::format("{}: cannot {}: {}", path, operation, std::strerror(error)), error);
}

// Where a part of `path` is a link to what is not there, which no folder can be made below.
void refuse_dangling_links(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::path part = path; part.has_relative_path(); part = part.parent_path()) {
    if (fs::is_symlink(part, error) && !fs::exists(part, error)) {
      throw IoError(fmt::format("{}: the link leads to {}, where nothing is", part.string(),
                                follow_links(part.string())),
                    ENOENT);
    }
  }
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, std::string_view operation) {
    do {
      fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) {
      throw_errno(path, operation, errno);
    }
  }
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// A file to read, and what it is. Opening waits for nobody, as it would for the writer of a named pipe.
class Source {
 public:
  explicit Source(const std::string& path) : fd_(path, O_RDONLY | O_NONBLOCK, "open") {
    if (::fstat(fd_.get(), &info_) != 0) {
      throw_errno(path, "read", errno);
    }
    if (S_ISFIFO(info_.st_mode)) {
      await_writer(path);
    }
    if (::fcntl(fd_.get(), F_SETFL, O_RDONLY) != 0) {
      throw_errno(path, "read", errno);
    }
  }
  int get() const { return fd_.get(); }
  const struct stat& info() const { return info_; }

 private:
  // The writer of a pipe without a name, as the standard input or a shell's <(…) is, was there before us.
  void await_writer(const std::string& path) const {
    constexpr int kPatience = 2000;  // ms
    struct statfs where {};
    const bool is_named =
        ::fstatfs(fd_.get(), &where) == 0 && where.f_type != static_cast<long>(PIPEFS_MAGIC);
    pollfd data{fd_.get(), POLLIN, 0};
    if (is_named && ::poll(&data, 1, kPatience) == 0) {
      throw IoError(
          fmt::format("{}: is a pipe into which nobody writes; expected a regular file", path));
    }
  }

  Descriptor fd_;
  struct stat info_ {};
};

class RealWritableFile final : public WritableFile {
 public:
  RealWritableFile(std::string path, WriteMode mode)
      : path_(std::move(path)),
        fd_(path_, O_WRONLY | O_CREAT | (mode == WriteMode::kAppend ? O_APPEND : O_TRUNC),
            "open for writing") {}

  using WritableFile::append;
  void append(std::span<const std::byte> bytes) override {
    check_open();
    while (!bytes.empty()) {
      // Linux writes at most 2 GiB at once.
      const ssize_t count =
          ::write(fd_.get(), bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
      if (count < 0) {
        if (errno == EINTR) {
          continue;
        }
        throw_errno(path_, "write", errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  void sync() override {
    check_open();
    if (::fsync(fd_.get()) != 0) {
      throw_errno(path_, "sync", errno);
    }
  }
  void close() override {
    const int fd = fd_.release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
      throw_errno(path_, "close", errno);
    }
  }

 private:
  void check_open() const {
    if (fd_.get() < 0) {
      throw_errno(path_, "write after close", EBADF);
    }
  }
  std::string path_;
  Descriptor fd_;
};

class RealPlacedFile final : public PlacedFile {
 public:
  explicit RealPlacedFile(std::string path)
      : path_(std::move(path)), fd_(path_, O_WRONLY, "open for writing") {}

  void write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(fd_.get(), bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30),
                   static_cast<off_t>(offset));
      if (count < 0) {
        if (errno == EINTR) {
          continue;
        }
        throw_errno(path_, "write", errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
  }
  void sync() override {
    if (::fsync(fd_.get()) != 0) {
      throw_errno(path_, "sync", errno);
    }
  }
  void close() override {
    const int fd = fd_.release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
      throw_errno(path_, "close", errno);
    }
  }

 private:
  std::string path_;
  Descriptor fd_;
};

class RealMappedFile final : public MappedFile {
 public:
  explicit RealMappedFile(const std::string& path) {
    const Descriptor fd(path, O_RDONLY | O_NONBLOCK, "open");  // waits for no pipe's writer
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) {
      throw_errno(path, "read", errno);
    }
    if (S_ISDIR(info.st_mode)) {
      throw_errno(path, "map", EISDIR);
    }
    if (!S_ISREG(info.st_mode)) {
      throw IoError(fmt::format("{}: is no regular file", path), EINVAL);
    }
    size_ = static_cast<size_t>(info.st_size);
    if (size_ > 0) {
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
      if (data_ == MAP_FAILED) {
        throw_errno(path, "map", errno);
      }
    }
  }
  ~RealMappedFile() override {
    if (size_ > 0) {
      ::munmap(data_, size_);
    }
  }
  RealMappedFile(const RealMappedFile&) = delete;
  RealMappedFile& operator=(const RealMappedFile&) = delete;
  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// flock rather than fcntl: two locks in one process exclude each other, and closing another descriptor of the file
// does not drop the lock.
class RealFileLock final : public FileLock {
 public:
  explicit RealFileLock(int fd) : fd_(fd) {}
  ~RealFileLock() override { ::close(fd_); }
  RealFileLock(const RealFileLock&) = delete;
  RealFileLock& operator=(const RealFileLock&) = delete;

 private:
  int fd_;
};

class RealFiles final : public FileSystem {
 public:
  std::string read(const std::string& path, uint64_t max_bytes) override {
    const Source fd(path);
    std::string data;
    // The size is a hint only: pipes and /proc files state none, and files grow.
    data.resize(std::min<uint64_t>(static_cast<uint64_t>(std::max<off_t>(fd.info().st_size, 0)),
                                   max_bytes) +
                1);
    size_t used = 0;
    for (;;) {
      if (used == data.size()) {
        data.resize(data.size() + data.size() / 2 + 4096);
      }
      const ssize_t count = ::read(fd.get(), data.data() + used,
                                   std::min<size_t>(data.size() - used, size_t{1} << 30));
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        throw_errno(path, "read", errno);
      }
      if (count == 0) {
        break;
      }
      used += static_cast<size_t>(count);
      if (used > max_bytes) {
        throw IoError(fmt::format("{}: larger than the limit of {} bytes", path, max_bytes), EFBIG);
      }
    }
    data.resize(used);
    return data;
  }

  std::unique_ptr<MappedFile> map(const std::string& path) override {
    return std::make_unique<RealMappedFile>(path);
  }
  std::unique_ptr<WritableFile> open(const std::string& path, WriteMode mode) override {
    return std::make_unique<RealWritableFile>(path, mode);
  }
  std::unique_ptr<PlacedFile> open_placed(const std::string& path) override {
    return std::make_unique<RealPlacedFile>(path);
  }

  bool exists(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
      return true;
    }
    if (errno != ENOENT && errno != ENOTDIR) {
      throw_errno(path, "look up", errno);
    }
    return false;
  }
  bool is_directory(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
      return S_ISDIR(info.st_mode);
    }
    if (errno != ENOENT && errno != ENOTDIR) {
      throw_errno(path, "look up", errno);
    }
    return false;
  }
  std::vector<std::string> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory.c_str()), ::closedir);
    if (dir == nullptr) {
      throw_errno(directory, "list", errno);
    }
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());
      if (entry == nullptr) {
        break;
      }
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        names.emplace_back(name);
      }
    }
    if (errno != 0) {
      throw_errno(directory, "list", errno);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  uint64_t file_size(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      throw_errno(path, "look up", errno);
    }
    return static_cast<uint64_t>(info.st_size);
  }
  uint64_t free_space(const std::string& path) override {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) {
      throw_errno(path, "measure free space", errno);
    }
    return static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_frsize);
  }

  void create_directories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) {
      refuse_dangling_links(path);
      throw_errno(path, "create directory", error.value());
    }
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw_errno(from, "rename to " + to, errno);
    }
  }
  bool exchange(const std::string& a, const std::string& b) override {
#ifdef RENAME_EXCHANGE
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
      return true;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
      throw_errno(a, "exchange with " + b, errno);
    }
#else
    (void)a;
    (void)b;
#endif
    return false;
  }
  void truncate(const std::string& path, uint64_t size) override {
    if (::truncate(path.c_str(), static_cast<off_t>(size)) != 0) {
      throw_errno(path, "truncate", errno);
    }
  }
  void remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) {
      throw_errno(path, "remove", errno);
    }
  }
  void remove_all(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) {
      throw_errno(path, "remove", error.value());
    }
  }
  void sync_directory(const std::string& path) override {
    const Descriptor fd(path, O_RDONLY | O_DIRECTORY, "open directory");
    // Some network file systems refuse to sync a directory and make its entries durable by themselves.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) {
      throw_errno(path, "sync directory", errno);
    }
  }

  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    Descriptor fd(path, O_RDWR | O_CREAT, "open lock file");
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        return nullptr;
      }
      if (errno != EINTR) {
        throw_errno(path, "lock", errno);
      }
    }
    return std::make_unique<RealFileLock>(fd.release());
  }
};

}  // namespace

FileSystem& real_files() {
  static RealFiles files;
  return files;
}

}  // namespace mstrain
