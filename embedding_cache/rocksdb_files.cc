#ifdef MSTRAIN_HAS_ROCKSDB

#include "embedding_cache/rocksdb_files.h"

#include <rocksdb/file_system.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"

namespace mstrain::embedding_cache {
namespace {

template <class F>
rocksdb::IOStatus as_status(const F& body) {
  try {
    return body();
  } catch (const IoError& error) {
    switch (error.error_number()) {
      case ENOSPC: return rocksdb::IOStatus::NoSpace(error.what());
      case ENOENT: return rocksdb::IOStatus::PathNotFound(error.what());
      default: return rocksdb::IOStatus::IOError(error.what());
    }
  }
}

// Fewer bytes than asked for mean the end of the file to RocksDB: a read that is short before it is an error here.
rocksdb::IOStatus read_at(FileSystem& files, const std::string& path, uint64_t offset, size_t n,
                          rocksdb::Slice* result, char* scratch) {
  return as_status([&] {
    const uint64_t size = files.file_size(path);
    const auto file = files.map(path);
    const std::string_view bytes = as_text(file->bytes());
    if (bytes.size() < size) {
      return rocksdb::IOStatus::IOError(
          fmt::format("{}: cannot read: {} of {} bytes came", path, bytes.size(), size));
    }
    const std::string_view part =
        offset < bytes.size() ? bytes.substr(offset, n) : std::string_view();
    std::copy(part.begin(), part.end(), scratch);
    *result = rocksdb::Slice(scratch, part.size());
    return rocksdb::IOStatus::OK();
  });
}

class SeamSequential final : public rocksdb::FSSequentialFile {
 public:
  SeamSequential(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions&, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext*) override {
    rocksdb::IOStatus status = read_at(files_, path_, offset_, n, result, scratch);
    offset_ += status.ok() ? result->size() : 0;
    return status;
  }
  rocksdb::IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return rocksdb::IOStatus::OK();
  }

 private:
  FileSystem& files_;
  std::string path_;
  uint64_t offset_ = 0;
};

class SeamRandom final : public rocksdb::FSRandomAccessFile {
 public:
  SeamRandom(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions&,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext*) const override {
    return read_at(files_, path_, offset, n, result, scratch);
  }

 private:
  FileSystem& files_;
  std::string path_;
};

class SeamWritable final : public rocksdb::FSWritableFile {
 public:
  SeamWritable(std::unique_ptr<WritableFile> file, uint64_t size)
      : file_(std::move(file)), size_(size) {}
  using FSWritableFile::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions&,
                           rocksdb::IODebugContext*) override {
    return as_status([&] {
      file_->append(std::string_view(data.data(), data.size()));
      size_ += data.size();
      return rocksdb::IOStatus::OK();
    });
  }
  rocksdb::IOStatus Flush(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return as_status([&] { return file_->sync(), rocksdb::IOStatus::OK(); });
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return as_status([&] { return file_->close(), rocksdb::IOStatus::OK(); });
  }
  uint64_t GetFileSize(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return size_;
  }

 private:
  std::unique_ptr<WritableFile> file_;
  uint64_t size_;
};

class SeamDirectory final : public rocksdb::FSDirectory {
 public:
  SeamDirectory(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return as_status([&] { return files_.sync_directory(path_), rocksdb::IOStatus::OK(); });
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }

 private:
  FileSystem& files_;
  std::string path_;
};

class SeamFiles final : public rocksdb::FileSystemWrapper {
  using Status = rocksdb::IOStatus;
  using Options = rocksdb::IOOptions;
  using Debug = rocksdb::IODebugContext;

 public:
  explicit SeamFiles(mstrain::FileSystem& files)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), files_(files) {}
  const char* Name() const override { return "mstrain_files"; }

  Status NewSequentialFile(const std::string& path, const rocksdb::FileOptions&,
                           std::unique_ptr<rocksdb::FSSequentialFile>* out, Debug*) override {
    return open(path, [&] { *out = std::make_unique<SeamSequential>(files_, path); });
  }
  Status NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions&,
                             std::unique_ptr<rocksdb::FSRandomAccessFile>* out, Debug*) override {
    return open(path, [&] { *out = std::make_unique<SeamRandom>(files_, path); });
  }
  Status NewWritableFile(const std::string& path, const rocksdb::FileOptions&,
                         std::unique_ptr<rocksdb::FSWritableFile>* out, Debug*) override {
    return done(
        [&] { *out = std::make_unique<SeamWritable>(files_.open(path, WriteMode::kTruncate), 0); });
  }
  Status ReopenWritableFile(const std::string& path, const rocksdb::FileOptions&,
                            std::unique_ptr<rocksdb::FSWritableFile>* out, Debug*) override {
    return done([&] {
      const uint64_t size = files_.exists(path) ? files_.file_size(path) : 0;
      *out = std::make_unique<SeamWritable>(files_.open(path, WriteMode::kAppend), size);
    });
  }
  Status ReuseWritableFile(const std::string& path, const std::string& old,
                           const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* out, Debug* debug) override {
    Status status = RenameFile(old, path, {}, debug);
    return status.ok() ? NewWritableFile(path, options, out, debug) : status;
  }
  Status NewRandomRWFile(const std::string& path, const rocksdb::FileOptions&,
                         std::unique_ptr<rocksdb::FSRandomRWFile>*, Debug*) override {
    return Status::NotSupported(path);
  }
  Status NewDirectory(const std::string& path, const Options&,
                      std::unique_ptr<rocksdb::FSDirectory>* out, Debug*) override {
    *out = std::make_unique<SeamDirectory>(files_, path);
    return Status::OK();
  }
  Status FileExists(const std::string& path, const Options&, Debug*) override {
    return as_status([&] { return files_.exists(path) ? Status::OK() : Status::NotFound(path); });
  }
  Status GetChildren(const std::string& path, const Options&, std::vector<std::string>* out,
                     Debug*) override {
    return done([&] { *out = files_.list(path); });
  }
  Status DeleteFile(const std::string& path, const Options&, Debug*) override {
    return done([&] { files_.remove(path); });
  }
  Status Truncate(const std::string& path, size_t size, const Options&, Debug*) override {
    return done([&] { files_.truncate(path, size); });
  }
  Status CreateDir(const std::string& path, const Options&, Debug*) override {
    return done([&] { files_.create_directories(path); });
  }
  Status CreateDirIfMissing(const std::string& path, const Options&, Debug*) override {
    return done([&] { files_.create_directories(path); });
  }
  Status DeleteDir(const std::string& path, const Options&, Debug*) override {
    return done([&] { files_.remove(path); });
  }
  Status GetFileSize(const std::string& path, const Options&, uint64_t* size, Debug*) override {
    return done([&] { *size = files_.file_size(path); });
  }
  Status RenameFile(const std::string& from, const std::string& to, const Options&,
                    Debug*) override {
    return done([&] { files_.rename(from, to); });
  }
  Status LinkFile(const std::string& from, const std::string&, const Options&, Debug*) override {
    return Status::NotSupported(from);
  }

 private:
  template <class F>
  static Status done(const F& body) {
    return as_status([&] { return body(), Status::OK(); });
  }
  template <class F>
  Status open(const std::string& path, const F& body) {
    return as_status([&] {
      if (!files_.exists(path)) {
        return Status::PathNotFound(path);
      }
      body();
      return Status::OK();
    });
  }
  mstrain::FileSystem& files_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> env_of(FileSystem& files) {
  return rocksdb::NewCompositeEnv(std::make_shared<SeamFiles>(files));
}

void copy_file(FileSystem& files, const std::string& source, const std::string& target) {
  const auto from = files.map(source);
  const auto to = files.open(target, WriteMode::kTruncate);
  to->append(from->bytes());
  to->sync();
  to->close();
}

void link_or_copy(FileSystem& files, const std::string& source, const std::string& target) {
  if (&files == &real_files()) {
    std::error_code error;
    std::filesystem::create_hard_link(source, target, error);
    const int number = error.value();
    const bool cannot =
        number == EXDEV || number == EPERM || number == EMLINK || number == EOPNOTSUPP;
    if (error && !cannot) {
      throw IoError(fmt::format("{}: cannot link to {}: {}", source, target, error.message()),
                    number);
    }
    if (!error) {
      return;
    }
  }
  copy_file(files, source, target);
}

}  // namespace mstrain::embedding_cache

#endif
