// Files for those who follow what another writes: reads what is there, and writes nothing but where the other asks for it.
#pragma once

#include "core/base/files.h"

namespace mstrain {

// Every change succeeds and does nothing, except placed writes, which go to files that another has made; locks are always free.
class SilentFiles final : public FileSystem {
 public:
  explicit SilentFiles(FileSystem& inner) : inner_(inner) {}

  std::string read(const std::string& path, uint64_t max_bytes) override {
    return inner_.read(path, max_bytes);
  }
  std::unique_ptr<MappedFile> map(const std::string& path) override { return inner_.map(path); }
  std::unique_ptr<WritableFile> open(const std::string&, WriteMode) override {
    return std::make_unique<Nothing>();
  }
  std::unique_ptr<PlacedFile> open_placed(const std::string& path) override {
    return inner_.open_placed(path);
  }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  bool is_directory(const std::string& path) override { return inner_.is_directory(path); }
  std::vector<std::string> list(const std::string& directory) override {
    return inner_.list(directory);
  }
  uint64_t file_size(const std::string& path) override { return inner_.file_size(path); }
  uint64_t free_space(const std::string& path) override { return inner_.free_space(path); }
  void create_directories(const std::string&) override {}
  void rename(const std::string&, const std::string&) override {}
  bool exchange(const std::string&, const std::string&) override { return true; }
  void truncate(const std::string&, uint64_t) override {}
  void remove(const std::string&) override {}
  void remove_all(const std::string&) override {}
  void sync_directory(const std::string&) override {}
  std::unique_ptr<FileLock> try_lock(const std::string&) override {
    return std::make_unique<FileLock>();
  }

 private:
  class Nothing final : public WritableFile {
   public:
    using WritableFile::append;
    void append(std::span<const std::byte>) override {}
    void sync() override {}
    void close() override {}
  };

  FileSystem& inner_;
};

}  // namespace mstrain
