#include "core/data/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/data/token_format.h"

namespace mstrain {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr int64_t kMegatron16 = 65500;  // Megatron's own limit for 16 bits

class StandardOutput final : public WritableFile {
 public:
  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) {
        throw IoError(fmt::format("standard output: write: {}", std::strerror(errno)), errno);
      }
      bytes = bytes.subspan(std::max<ssize_t>(written, 0));
    }
  }
  void sync() override {}
  void close() override {}
};

void overwrite_start(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool done =
      fd >= 0 &&
      ::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
      ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  if (!done) {
    throw IoError(fmt::format("{}: write: {}", path, std::strerror(error)), error);
  }
}

// Cuts `path` back to `bytes` and opens it to go on; at 0 it is made anew.
std::unique_ptr<WritableFile> reopen(FileSystem& files, const std::string& path, int64_t bytes) {
  if (bytes == 0) {
    return files.open(path, WriteMode::kTruncate);
  }
  const uint64_t size = files.exists(path) ? files.file_size(path) : 0;
  if (size < static_cast<uint64_t>(bytes)) {
    throw IoError(fmt::format("{}: holds {} bytes instead of {}", path, size, bytes));
  }
  files.truncate(path, static_cast<uint64_t>(bytes));
  return files.open(path, WriteMode::kAppend);
}

int width_of(TokenFormat format, int64_t vocab_size) {
  constexpr int64_t k16 = 65536;
  switch (format) {
    case TokenFormat::kNanogpt:
      if (vocab_size > k16) {
        throw ConfigError(
            fmt::format("nanogpt: its ids have 16 bits, too few for a vocabulary of "
                        "{}; llmc and megatron take it",
                        vocab_size));
      }
      return 2;
    case TokenFormat::kLlmc: return vocab_size > k16 ? 4 : 2;
    case TokenFormat::kMegatron: return vocab_size < kMegatron16 ? 2 : 4;
    case TokenFormat::kJsonl: break;
  }
  return 0;
}

}  // namespace

const std::vector<std::string> kTokenFormatNames{"nanogpt", "llmc", "megatron", "jsonl"};

void check_token_output(FileSystem& files, const std::string& path, TokenFormat format) {
  const std::string& name = kTokenFormatNames[static_cast<size_t>(format)];
  if (path == "-") {
    if (format == TokenFormat::kLlmc || format == TokenFormat::kMegatron) {
      throw ConfigError(
          fmt::format("{}: cannot go to standard output; nanogpt and jsonl can", name));
    }
    return;
  }
  if (format == TokenFormat::kJsonl) {
    if (path.ends_with(".bin")) {
      throw ConfigError(fmt::format(
          "{}: training takes what ends in .bin for ids in bytes, and {} writes lines of text; "
          "choose another ending",
          path, name));
    }
    return;
  }
  if (!path.ends_with(".bin")) {
    throw ConfigError(fmt::format(
        "{}: a file of ids in format {} ends in .bin, by which training knows it", path, name));
  }
  if (const std::string index = index_path(path);
      format != TokenFormat::kMegatron && files.exists(index)) {
    throw ConfigError(
        fmt::format("{}: {} lies beside it and makes readers take it for one of "
                    "megatron's; remove that or choose another name",
                    path, index));
  }
}

std::string beside_output(const std::string& path, std::string_view ending) {
  return join_path(parent_path(path), fmt::format(".{}{}", file_name(path), ending));
}

TokenWriter::TokenWriter(FileSystem& files, std::string path, TokenFormat format,
                         int64_t vocab_size, const Position& resume)
    : files_(files),
      path_(std::move(path)),
      format_(format),
      width_(width_of(format, vocab_size)),
      to_output_(path_ == "-"),
      position_(resume) {
  check_token_output(files, path_, format);
  if (to_output_) {
    file_ = std::make_unique<StandardOutput>();
    return;
  }
  file_ = reopen(files, partial_path(path_), resume.bytes);
  if (format == TokenFormat::kMegatron) {
    lengths_ = reopen(files, lengths_path(), 4 * resume.documents);
  }
  if (format == TokenFormat::kLlmc && resume.bytes == 0) {
    append(std::string(kLlmcHeader, '\0'));  // filled in by finish()
  }
}

void TokenWriter::append(std::string_view bytes) {
  buffer_ += bytes;
  position_.bytes += static_cast<int64_t>(bytes.size());
  if (buffer_.size() >= kBuffer) {
    file_->append(std::exchange(buffer_, {}));
  }
}

void TokenWriter::add(std::span<const int32_t> ids) {
  std::string bytes;
  if (width_ == 0) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const char* before = i > 0 || position_.document_tokens > 0 ? ", " : "[";
      fmt::format_to(std::back_inserter(bytes), "{}{}", before, ids[i]);
    }
  } else {
    bytes.resize(ids.size() * width_);
    char* out = bytes.data();
    for (const int32_t id : ids) {
      for (int i = 0; i < width_; ++i) {
        *out++ = static_cast<char>(static_cast<uint32_t>(id) >> (8 * i));
      }
    }
  }
  append(bytes);
  position_.tokens += static_cast<int64_t>(ids.size());
  position_.document_tokens += static_cast<int64_t>(ids.size());
}

void TokenWriter::end_document() {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (width_ == 0) {
    append(position_.document_tokens == 0 ? "[]\n" : "]\n");
  }
  if (lengths_ != nullptr) {
    if (position_.document_tokens > kMost) {
      throw IoError(
          fmt::format("{}: a document of {} tokens exceeds the 32 bits that megatron has "
                      "for its length",
                      path_, position_.document_tokens));
    }
    append_little_endian(length_buffer_, static_cast<int32_t>(position_.document_tokens));
    if (length_buffer_.size() >= kBuffer) {
      lengths_->append(std::exchange(length_buffer_, {}));
    }
  }
  ++position_.documents;
  position_.document_tokens = 0;
}

TokenWriter::Position TokenWriter::sync() {
  file_->append(std::exchange(buffer_, {}));
  file_->sync();
  if (lengths_ != nullptr) {
    lengths_->append(std::exchange(length_buffer_, {}));
    lengths_->sync();
  }
  return position_;
}

// Three passes over the lengths, which lie on disk.
void TokenWriter::write_index() {
  const std::unique_ptr<MappedFile> mapped = files_.map(lengths_path());
  const std::string_view lengths = as_text(mapped->bytes());
  const std::string partial = partial_path(index_path(path_));
  const std::unique_ptr<WritableFile> out = files_.open(partial, WriteMode::kTruncate);
  std::string bytes(kMegatronMagic);
  append_little_endian(bytes, uint64_t{1});
  append_little_endian(bytes, static_cast<uint8_t>(width_ == 2 ? kMegatronU16 : kMegatronI32));
  append_little_endian(bytes, position_.documents);
  append_little_endian(bytes, position_.documents + 1);
  const auto flush = [&](size_t above) {
    if (bytes.size() > above) {
      out->append(std::exchange(bytes, {}));
    }
  };
  flush(0);
  out->append(lengths);
  int64_t offset = 0;
  for (int64_t i = 0; i < position_.documents; ++i) {
    append_little_endian(bytes, offset);
    offset += width_ * int64_t{read_little_endian<int32_t>(lengths.data() + 4 * i)};
    flush(kBuffer);
  }
  for (int64_t i = 0; i <= position_.documents; ++i) {
    append_little_endian(bytes, i);
    flush(kBuffer);
  }
  flush(0);
  out->sync();
  out->close();
}

void TokenWriter::finish() {
  sync();
  file_->close();
  if (to_output_) {
    return;
  }
  if (format_ == TokenFormat::kLlmc) {
    if (position_.tokens > std::numeric_limits<int32_t>::max()) {
      throw IoError(
          fmt::format("{}: {} tokens exceed the 32 bits that llm.c has for their number; "
                      "cut the input into several files",
                      path_, position_.tokens));
    }
    std::string header;
    append_little_endian(header, width_ == 2 ? kLlmcMagic16 : kLlmcMagic32);
    append_little_endian(header, width_ == 2 ? kLlmcVersion16 : kLlmcVersion32);
    append_little_endian(header, static_cast<uint32_t>(position_.tokens));
    overwrite_start(partial_path(path_), header);
  }
  if (lengths_ != nullptr) {
    lengths_->close();
    write_index();
    files_.rename(partial_path(index_path(path_)), index_path(path_));
  }
  files_.rename(partial_path(path_), path_);
  files_.sync_directory(parent_path(path_));
  if (lengths_ != nullptr) {
    files_.remove(lengths_path());
  }
}

}  // namespace mstrain
