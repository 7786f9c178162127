// The real files with something done before each operation: it may count, wait, kill the process, or throw.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/files.h"

namespace mstrain::embedding_cache {

class HookedFiles final : public FileSystem {
 public:
  // `operation` is the method's name. Looking up names is not announced. An append is announced before each half of its bytes is written.
  // Must be thread-safe.
  using Hook = std::function<void(std::string_view operation, const std::string& path)>;
  // How many bytes of a mapped file of `size` bytes are seen.
  using Cut = std::function<size_t(const std::string& path, size_t size)>;
  explicit HookedFiles(Hook hook, Cut cut = {}) : hook_(std::move(hook)), cut_(std::move(cut)) {}

  std::string read(const std::string& path, uint64_t max_bytes) override {
    return hook_("read", path), real_files().read(path, max_bytes);
  }
  std::unique_ptr<MappedFile> map(const std::string& path) override {
    hook_("map", path);
    auto file = real_files().map(path);
    const size_t size = file->bytes().size();
    return std::make_unique<Mapped>(std::move(file), cut_ ? cut_(path, size) : size);
  }
  std::unique_ptr<WritableFile> open(const std::string& path, WriteMode mode) override {
    hook_("open", path);
    return std::make_unique<File>(hook_, path, real_files().open(path, mode));
  }
  std::unique_ptr<PlacedFile> open_placed(const std::string& path) override {
    return hook_("open", path), real_files().open_placed(path);
  }
  bool exists(const std::string& path) override { return real_files().exists(path); }
  bool is_directory(const std::string& path) override { return real_files().is_directory(path); }
  std::vector<std::string> list(const std::string& path) override {
    return hook_("list", path), real_files().list(path);
  }
  uint64_t file_size(const std::string& path) override { return real_files().file_size(path); }
  uint64_t free_space(const std::string& path) override { return real_files().free_space(path); }
  void create_directories(const std::string& path) override {
    hook_("create_directories", path), real_files().create_directories(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    hook_("rename", from), real_files().rename(from, to);
  }
  bool exchange(const std::string& a, const std::string& b) override {
    return hook_("exchange", a), real_files().exchange(a, b);
  }
  void truncate(const std::string& path, uint64_t size) override {
    hook_("truncate", path), real_files().truncate(path, size);
  }
  void remove(const std::string& path) override {
    hook_("remove", path), real_files().remove(path);
  }
  void remove_all(const std::string& path) override {
    hook_("remove_all", path), real_files().remove_all(path);
  }
  void sync_directory(const std::string& path) override {
    hook_("sync_directory", path), real_files().sync_directory(path);
  }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return real_files().try_lock(path);
  }

 private:
  class Mapped final : public MappedFile {
   public:
    Mapped(std::unique_ptr<MappedFile> inner, size_t size)
        : inner_(std::move(inner)), size_(size) {}
    std::span<const std::byte> bytes() const override { return inner_->bytes().first(size_); }

   private:
    std::unique_ptr<MappedFile> inner_;
    size_t size_;
  };
  class File final : public WritableFile {
   public:
    File(const Hook& hook, std::string path, std::unique_ptr<WritableFile> inner)
        : hook_(hook), path_(std::move(path)), inner_(std::move(inner)) {}
    using WritableFile::append;
    void append(std::span<const std::byte> bytes) override {
      hook_("append", path_);
      inner_->append(bytes.first(bytes.size() / 2));
      hook_("append", path_);
      inner_->append(bytes.subspan(bytes.size() / 2));
    }
    void sync() override { hook_("sync", path_), inner_->sync(); }
    void close() override { hook_("close", path_), inner_->close(); }

   private:
    const Hook& hook_;
    std::string path_;
    std::unique_ptr<WritableFile> inner_;
  };
  Hook hook_;
  Cut cut_;
};

}  // namespace mstrain::embedding_cache
