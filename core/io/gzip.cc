#include "core/io/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/io/refuse.h"

namespace mstrain {
namespace {

constexpr int kGzipWindow = 15 + 16;
constexpr size_t kStep = 1 << 20;

class Inflater {
 public:
  explicit Inflater(const std::string& name) {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
      refuse(name, 0, "cannot start zlib");
    }
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream* operator->() { return &stream_; }
  int step() { return inflate(&stream_, Z_NO_FLUSH); }
  void next_member() { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

class InMemory final : public WritableFile {
 public:
  using WritableFile::append;
  void append(std::span<const std::byte> bytes) override { text_ += as_text(bytes); }
  void sync() override {}
  void close() override {}
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

void inflate_gzip(FileSystem& files, const std::string& path, WritableFile& out) {
  const std::unique_ptr<MappedFile> mapped = files.map(path);
  const std::span<const std::byte> file = mapped->bytes();
  Inflater inflater(path);
  std::vector<std::byte> piece(kStep);
  size_t at = 0;
  bool is_whole = true;  // no member is under way
  while (at < file.size() || !is_whole) {
    const size_t given = std::min(kStep, file.size() - at);
    inflater->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file.data() + at));
    inflater->avail_in = static_cast<uInt>(given);
    inflater->next_out = reinterpret_cast<Bytef*>(piece.data());
    inflater->avail_out = static_cast<uInt>(piece.size());
    const int status = inflater.step();
    const size_t made = piece.size() - inflater->avail_out;
    const size_t taken = given - inflater->avail_in;
    at += taken;
    if (status == Z_STREAM_END) {
      inflater.next_member();
      is_whole = true;
    } else if (status == Z_OK && (taken > 0 || made > 0)) {
      is_whole = false;
    } else if (at == file.size() && (status == Z_OK || status == Z_BUF_ERROR)) {
      refuse(path, at, "the gzip stream is cut short");
    } else {
      refuse(path, at,
             fmt::format("the gzip stream is damaged ({})",
                         inflater->msg != nullptr ? inflater->msg : "zlib error"));
    }
    out.append(std::span(piece).first(made));
  }
}

std::string inflate_gzip(FileSystem& files, const std::string& path) {
  InMemory out;
  inflate_gzip(files, path, out);
  return out.take();
}

}  // namespace mstrain
