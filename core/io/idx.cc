#include "core/io/idx.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/io/refuse.h"

namespace mstrain {
namespace {

// Hands out the bytes of a file, inflated where it is a gzip stream.
class Source {
 public:
  Source(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {
    gzip_ = file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
    if (gzip_) {
      constexpr int kGzipWindow = 15 + 16;
      if (inflateInit2(&stream_, kGzipWindow) != Z_OK) {
        refuse(name_, 0, "cannot start zlib");
      }
    }
  }
  ~Source() {
    if (gzip_) {
      inflateEnd(&stream_);
    }
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Appends up to `count` bytes; fewer only at the end.
  void read(size_t count, std::vector<std::byte>& out) {
    // Memory grows with what arrives, not with what a header promises.
    constexpr size_t kStep = 1 << 20;
    while (count > 0) {
      const size_t step = std::min(count, kStep);
      const size_t before = out.size();
      out.resize(before + step);
      const size_t got =
          gzip_ ? inflate_some(out.data() + before, step) : copy_some(out.data() + before, step);
      out.resize(before + got);
      count -= got;
      if (got < step) {
        return;
      }
    }
  }

  // After the last byte, number `count`: nothing may follow, and a gzip stream must be whole.
  void expect_end(uint64_t count) {
    std::byte extra{};
    if ((gzip_ ? inflate_some(&extra, 1) : copy_some(&extra, 1)) != 0) {
      fail(count, "holds more data than its header says");
    }
    if (gzip_ && at_ != file_.size()) {
      refuse(name_, at_, "data follows the gzip stream");
    }
  }

  // Throws an error at a byte of what read() hands out.
  [[noreturn]] void fail(uint64_t offset, const std::string& message) const {
    refuse(name_, offset, gzip_ ? "inflated: " + message : message);
  }

 private:
  size_t copy_some(std::byte* out, size_t count) {
    const size_t got = std::min(count, file_.size() - at_);
    std::copy_n(file_.data() + at_, got, out);
    at_ += got;
    return got;
  }
  size_t inflate_some(std::byte* out, size_t count) {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(count);
    while (stream_.avail_out > 0 && !ended_) {
      const size_t chunk = std::min<size_t>(file_.size() - at_, 1 << 20);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file_.data() + at_));
      stream_.avail_in = static_cast<uInt>(chunk);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      at_ += chunk - stream_.avail_in;
      if (status == Z_STREAM_END) {
        ended_ = true;
      } else if (status == Z_BUF_ERROR ||
                 (status == Z_OK && at_ == file_.size() && stream_.avail_out > 0)) {
        refuse(name_, at_, "the gzip stream is cut short");
      } else if (status != Z_OK) {
        refuse(name_, at_,
               fmt::format("the gzip stream is damaged ({})",
                           stream_.msg != nullptr ? stream_.msg : "zlib error"));
      }
    }
    return count - stream_.avail_out;
  }

  std::span<const std::byte> file_;
  const std::string& name_;
  size_t at_ = 0;
  bool gzip_ = false;
  bool ended_ = false;
  z_stream stream_{};
};

std::optional<Dtype> dtype_of_code(uint8_t code) {
  switch (code) {
    case 0x08: return Dtype::kU8;
    case 0x09: return Dtype::kI8;
    case 0x0C: return Dtype::kI32;
    case 0x0D: return Dtype::kF32;
    case 0x0E: return Dtype::kF64;
    default: return std::nullopt;
  }
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> file, const std::string& name, uint64_t max_bytes) {
  Source source(file, name);
  std::vector<std::byte> head;
  source.read(4, head);
  if (head.size() < 4 || head[0] != std::byte{0} || head[1] != std::byte{0}) {
    source.fail(0, "not an IDX file");
  }
  const auto code = static_cast<uint8_t>(head[2]);
  const auto rank = static_cast<size_t>(head[3]);
  const std::optional<Dtype> dtype = dtype_of_code(code);
  if (!dtype) {
    source.fail(2, code == 0x0B ? "IDX type 0x0B (i16) is not supported"
                                : fmt::format("not an IDX file: type 0x{:02X}", code));
  }
  if (rank == 0 || rank > 8) {
    source.fail(3, fmt::format("{} dimensions, expected 1 to 8", rank));
  }
  std::vector<std::byte> sizes;
  source.read(4 * rank, sizes);
  if (sizes.size() < 4 * rank) {
    source.fail(4 + sizes.size(), "cut short in its header");
  }
  IdxArray array;
  array.dtype = *dtype;
  const auto element = static_cast<size_t>(size_of(*dtype));
  uint64_t bytes = element;
  for (size_t d = 0; d < rank; ++d) {
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) {
      size = (size << 8) | static_cast<uint32_t>(sizes[4 * d + i]);
    }
    array.shape.push_back(size);
    if (__builtin_mul_overflow(bytes, uint64_t{size}, &bytes)) {
      source.fail(4 + 4 * d, "the sizes overflow");
    }
  }
  if (bytes > max_bytes) {
    source.fail(4, fmt::format("{} bytes of data, at most {} are read", bytes, max_bytes));
  }
  const uint64_t begin = 4 + 4 * rank;
  source.read(bytes, array.data);
  if (array.data.size() < bytes) {
    source.fail(begin + array.data.size(),
                fmt::format("the header takes {} bytes of data, the file holds {}", bytes,
                            array.data.size()));
  }
  source.expect_end(begin + bytes);
  if constexpr (std::endian::native == std::endian::little) {
    for (size_t i = 0; i < array.data.size(); i += element) {
      std::reverse(array.data.begin() + static_cast<ptrdiff_t>(i),
                   array.data.begin() + static_cast<ptrdiff_t>(i + element));
    }
  }
  return array;
}

IdxArray read_idx(FileSystem& files, const std::string& path, uint64_t max_bytes) {
  return parse_idx(files.map(path)->bytes(), path, max_bytes);
}

LabeledImages read_labeled_images(FileSystem& files, const std::string& images_path,
                                  const std::string& labels_path, int classes) {
  LabeledImages out{read_idx(files, images_path), read_idx(files, labels_path)};
  if (out.images.dtype != Dtype::kU8 || out.images.shape.size() != 3) {
    refuse(images_path, 2, "no file of 8-bit images");
  }
  if (out.labels.dtype != Dtype::kU8 || out.labels.shape.size() != 1) {
    refuse(labels_path, 2, "no file of 8-bit labels");
  }
  if (out.images.shape[0] != out.labels.shape[0]) {
    refuse(labels_path, 4,
           fmt::format("{} labels for {} images of {}", out.labels.shape[0], out.images.shape[0],
                       images_path));
  }
  for (size_t i = 0; i < out.labels.data.size(); ++i) {
    if (static_cast<int>(out.labels.data[i]) >= classes) {
      refuse(labels_path, 8 + i,
             fmt::format("label {} of image {}, expected below {}",
                         static_cast<int>(out.labels.data[i]), i, classes));
    }
  }
  return out;
}

}  // namespace mstrain
