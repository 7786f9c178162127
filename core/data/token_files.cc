#include "core/data/token_files.h"

#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/data/mapped_files.h"
#include "core/data/token_format.h"

namespace mstrain {
namespace {

// Megatron's index, checked whole: every sequence follows the one before it.
class MegatronIndex {
 public:
  MegatronIndex(FileSystem& files, const std::string& path, int64_t data_bytes)
      : path_(path), mapped_(files.map(path)), bytes_(as_text(mapped_->bytes())) {
    const auto at = [&](size_t offset) { return bytes_.data() + offset; };
    if (bytes_.size() < kMegatronHeader || !bytes_.starts_with(kMegatronMagic)) {
      refuse(0, "expected the 34 bytes of a Megatron index, beginning with MMIDIDX");
    }
    if (const auto version = read_little_endian<uint64_t>(at(9)); version != 1) {
      refuse(9, fmt::format("version {} instead of 1", version));
    }
    read_type(static_cast<uint8_t>(bytes_[17]));
    const auto sequences = read_little_endian<uint64_t>(at(18));
    const auto documents = read_little_endian<uint64_t>(at(26));
    const uint64_t rest = bytes_.size() - kMegatronHeader;
    if (sequences > rest / 12 || documents > rest / 8 || 12 * sequences + 8 * documents != rest) {
      refuse(18, fmt::format("{} sequences and {} document bounds do not make a file of {} bytes",
                             sequences, documents, bytes_.size()));
    }
    sequences_ = static_cast<int64_t>(sequences);
    bounds_ = static_cast<int64_t>(documents);
    check_sequences(data_bytes);
    check_documents();
  }

  int width() const { return width_; }
  bool is_signed() const { return signed_; }
  int64_t documents() const { return bounds_ - 1; }

  // In tokens.
  std::vector<int64_t> document_ends() const {
    std::vector<int64_t> ends;
    int64_t sequence = 0;
    int64_t tokens = 0;
    for (int64_t document = 1; document < bounds_; ++document) {
      for (; sequence < bound(document); ++sequence) {
        tokens += length(sequence);
      }
      ends.push_back(tokens);
    }
    return ends;
  }

 private:
  [[noreturn]] void refuse(size_t offset, std::string_view why) const {
    throw IoError(fmt::format("{}: offset {}: {}", path_, offset, why));
  }
  void read_type(uint8_t code) {
    // Megatron's numbers of NumPy types; 6 and 7 are floating.
    struct Type {
      int width;
      bool is_signed;
    };
    static constexpr Type kTypes[] = {{0, false}, {1, false}, {1, true},  {2, true}, {4, true},
                                      {8, true},  {0, false}, {0, false}, {2, false}};
    if (code >= std::size(kTypes) || kTypes[code].width == 0) {
      refuse(17, fmt::format("type {} is none of integers (1 to 5, 8)", code));
    }
    width_ = kTypes[code].width;
    signed_ = kTypes[code].is_signed;
  }
  size_t length_offset(int64_t i) const { return kMegatronHeader + 4 * i; }
  size_t pointer_offset(int64_t i) const { return kMegatronHeader + 4 * sequences_ + 8 * i; }
  size_t bound_offset(int64_t i) const { return kMegatronHeader + 12 * sequences_ + 8 * i; }
  int64_t length(int64_t i) const {
    return read_little_endian<int32_t>(bytes_.data() + length_offset(i));
  }
  int64_t bound(int64_t i) const {
    return read_little_endian<int64_t>(bytes_.data() + bound_offset(i));
  }
  void check_sequences(int64_t data_bytes) const {
    int64_t end = 0;
    for (int64_t i = 0; i < sequences_; ++i) {
      const auto begin = read_little_endian<int64_t>(bytes_.data() + pointer_offset(i));
      if (begin != end) {
        refuse(pointer_offset(i), fmt::format("sequence {} begins at byte {}, not at {} where the "
                                              "one before it ends",
                                              i, begin, end));
      }
      if (length(i) < 0 || length(i) * width_ > data_bytes - end) {
        refuse(length_offset(i),
               fmt::format("sequence {} has {} ids of {} bytes from byte {} of {}", i, length(i),
                           width_, end, data_bytes));
      }
      end += length(i) * width_;
    }
    if (end != data_bytes) {
      refuse(kMegatronHeader,
             fmt::format("its sequences hold {} bytes, the file of ids {}", end, data_bytes));
    }
  }
  void check_documents() const {
    for (int64_t i = 0; i < bounds_; ++i) {
      const int64_t least = i == 0 ? 0 : bound(i - 1);
      if (bound(i) < least || bound(i) > sequences_) {
        refuse(bound_offset(i),
               fmt::format("document {} begins with sequence {} of {}", i, bound(i), sequences_));
      }
    }
    if (bounds_ == 0 || bound(0) != 0 || bound(bounds_ - 1) != sequences_) {
      refuse(26, fmt::format("the documents do not reach from sequence 0 to {}", sequences_));
    }
  }

  std::string path_;
  std::unique_ptr<MappedFile> mapped_;
  std::string_view bytes_;
  int width_ = 0;
  bool signed_ = false;
  int64_t sequences_ = 0;
  int64_t bounds_ = 0;  // documents and one more
};

// Null where there is none.
std::shared_ptr<const MegatronIndex> megatron_index(FileSystem& files, const std::string& path) {
  const std::string index = index_path(path);
  return files.exists(index) ? std::make_shared<MegatronIndex>(
                                   files, index, static_cast<int64_t>(files.file_size(path)))
                             : nullptr;
}

TokenFileInfo info_of(const MegatronIndex& index, int64_t bytes) {
  return {.kind = "megatron",
          .width = index.width(),
          .is_signed = index.is_signed(),
          .tokens = bytes / index.width(),
          .documents = index.documents()};
}

TokenFileInfo read_plain(FileSystem& files, const std::string& path) {
  const auto refuse = [&](size_t offset, std::string_view why) {
    throw IoError(fmt::format("{}: offset {}: {}", path, offset, why));
  };
  const std::unique_ptr<MappedFile> mapped = files.map(path);
  const std::string_view bytes = as_text(mapped->bytes());
  const auto size = static_cast<int64_t>(bytes.size());
  const uint32_t magic = size < 4 ? 0 : read_little_endian<uint32_t>(bytes.data());
  if (magic != kLlmcMagic16 && magic != kLlmcMagic32) {
    if (bytes.starts_with("MMIDIDX")) {
      refuse(0, "is a Megatron index; its file of ids ends in .bin");
    }
    if (size % 2 != 0) {
      refuse(bytes.size() - 1, "ids of 16 bits do not fill an odd number of bytes");
    }
    return {.kind = "nanogpt", .width = 2, .tokens = size / 2};
  }
  const int width = magic == kLlmcMagic16 ? 2 : 4;
  const uint32_t expected = magic == kLlmcMagic16 ? kLlmcVersion16 : kLlmcVersion32;
  if (bytes.size() < kLlmcHeader) {
    refuse(bytes.size(), "cut short: the header of an llm.c file has 1024 bytes");
  }
  if (const auto version = read_little_endian<uint32_t>(bytes.data() + 4); version != expected) {
    refuse(4, fmt::format("version {} instead of {}", version, expected));
  }
  const int64_t tokens = read_little_endian<int32_t>(bytes.data() + 8);
  const auto header = static_cast<int64_t>(kLlmcHeader);
  if (tokens < 0 || header + tokens * width != size) {
    refuse(8, fmt::format("the header tells of {} ids of {} bytes, the file holds {} bytes of them",
                          tokens, width, size - header));
  }
  return {.kind = "llmc", .begin = header, .width = width, .tokens = tokens};
}

class FileStream final : public TokenStream {
 public:
  FileStream(FileSystem& files, const SourceFile& file, const TokenFileInfo& info,
             int64_t vocab_size, std::shared_ptr<const MegatronIndex> index)
      : bytes_(files, {file}), info_(info), vocab_size_(vocab_size), index_(std::move(index)) {}
  int64_t size() const override { return info_.tokens; }
  std::vector<int64_t> document_ends() const override {
    return index_ == nullptr ? TokenStream::document_ends() : index_->document_ends();
  }
  void read(int64_t begin, std::span<int32_t> out) const override {
    check(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size(),
          "tokens {} to {} lie outside a file of {} tokens", begin, begin + out.size(), size());
    if (out.empty()) {
      return;
    }
    const MappedFiles::Piece piece = bytes_.at(info_.begin + begin * info_.width);
    const char* at = piece.bytes.data();
    switch (info_.width * 2 + (info_.is_signed ? 1 : 0)) {
      case 2: return convert<uint8_t>(at, begin, out);
      case 3: return convert<int8_t>(at, begin, out);
      case 4: return convert<uint16_t>(at, begin, out);
      case 5: return convert<int16_t>(at, begin, out);
      case 8: return convert<uint32_t>(at, begin, out);
      case 9: return convert<int32_t>(at, begin, out);
      default: return convert<int64_t>(at, begin, out);
    }
  }

 private:
  template <class T>
  void convert(const char* at, int64_t begin, std::span<int32_t> out) const {
    for (size_t i = 0; i < out.size(); ++i) {
      const auto id = static_cast<int64_t>(read_little_endian<T>(at + i * sizeof(T)));
      if (id < 0 || id >= vocab_size_) [[unlikely]] {
        const SourceFile& file = bytes_.sources()[0];
        throw IoError(
            fmt::format("{}: offset {}: id {} is not below the tokenizer's vocabulary of "
                        "{}: made with another tokenizer?",
                        file.path, info_.begin + (begin + static_cast<int64_t>(i)) * info_.width,
                        id, vocab_size_));
      }
      out[i] = static_cast<int32_t>(id);
    }
  }

  MappedFiles bytes_;
  TokenFileInfo info_;
  int64_t vocab_size_;
  std::shared_ptr<const MegatronIndex> index_;
};

}  // namespace

bool is_token_file(std::string_view path) { return path.ends_with(".bin"); }

TokenFileInfo read_token_file_info(FileSystem& files, const std::string& path) {
  const auto index = megatron_index(files, path);
  return index != nullptr ? info_of(*index, static_cast<int64_t>(files.file_size(path)))
                          : read_plain(files, path);
}

TokenStreamPtr open_token_file(FileSystem& files, const SourceFile& file, int64_t vocab_size) {
  auto index = megatron_index(files, file.path);
  const TokenFileInfo info =
      index != nullptr ? info_of(*index, file.bytes) : read_plain(files, file.path);
  return std::make_shared<FileStream>(files, file, info, vocab_size, std::move(index));
}

}  // namespace mstrain
