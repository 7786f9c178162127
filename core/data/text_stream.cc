#include "core/data/text_stream.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

constexpr int64_t kStride = 256;  // characters between two marks: 3 % of the text's size in memory

void check_range(int64_t begin, size_t count, int64_t size) {
  check(begin >= 0 && begin + static_cast<int64_t>(count) <= size,
        "tokens {} to {} lie outside a text of {} tokens", begin, begin + count, size);
}

[[noreturn]] void fail_utf8(const MappedFiles& text, const MappedFiles::Piece& piece,
                            const char* at) {
  throw IoError(
      fmt::format("{}: not valid UTF-8 at byte {}; data.tokenizer.type byte takes any file",
                  text.sources()[piece.source].path, at - as_text(piece.owner->bytes()).data()));
}

// Calls visit(character, pointer to its first byte, piece) from byte `offset` on until it returns
// false or the text ends.
template <class Visit>
void for_each_character(const MappedFiles& text, int64_t offset, Visit visit) {
  while (offset < text.size()) {
    const MappedFiles::Piece piece = text.at(offset);
    for (size_t at = 0; at < piece.bytes.size();) {
      const auto first = static_cast<unsigned char>(piece.bytes[at]);
      const Utf8Character character =
          first < 0x80 ? Utf8Character{first, 1} : decode_utf8(piece.bytes, at);
      if (character.length == 0) {
        fail_utf8(text, piece, piece.bytes.data() + at);
      }
      if (!visit(character.code, piece.bytes.data() + at, piece)) {
        return;
      }
      at += character.length;
    }
    offset += static_cast<int64_t>(piece.bytes.size());
  }
}

class ByteStream final : public TokenStream {
 public:
  explicit ByteStream(std::shared_ptr<const MappedFiles> text) : text_(std::move(text)) {}
  int64_t size() const override { return text_->size(); }
  std::vector<int64_t> document_ends() const override { return text_->ends(); }
  void read(int64_t begin, std::span<int32_t> out) const override {
    check_range(begin, out.size(), size());
    while (!out.empty()) {
      const MappedFiles::Piece piece = text_->at(begin);
      const size_t n = std::min(out.size(), piece.bytes.size());
      std::transform(piece.bytes.begin(), piece.bytes.begin() + n, out.begin(),
                     [](char c) { return static_cast<unsigned char>(c); });
      out = out.subspan(n);
      begin += static_cast<int64_t>(n);
    }
  }

 private:
  std::shared_ptr<const MappedFiles> text_;
};

class CharStream final : public TokenStream {
 public:
  CharStream(std::shared_ptr<const CharIndex> index, std::shared_ptr<const CharTokenizer> tokenizer)
      : index_(std::move(index)), tokenizer_(std::move(tokenizer)) {}
  int64_t size() const override { return index_->size(); }
  std::vector<int64_t> document_ends() const override { return index_->ends(); }
  void read(int64_t begin, std::span<int32_t> out) const override {
    check_range(begin, out.size(), size());
    if (out.empty()) {
      return;
    }
    const MappedFiles& text = *index_->text();
    size_t done = 0;
    for_each_character(
        text, index_->offset_of(begin), [&](char32_t code, const char*, auto& piece) {
          out[done] = tokenizer_->id_of(code);
          if (out[done] < 0) {
            throw IoError(fmt::format("{}: has changed since it was opened: {} is new",
                                      text.sources()[piece.source].path, describe_character(code)));
          }
          return ++done < out.size();
        });
    check(done == out.size(), "the text has changed since it was opened: it ends at character {}",
          begin + static_cast<int64_t>(done));
  }

 private:
  std::shared_ptr<const CharIndex> index_;
  std::shared_ptr<const CharTokenizer> tokenizer_;
};

}  // namespace

TokenStreamPtr byte_stream(std::shared_ptr<const MappedFiles> text) {
  return std::make_shared<ByteStream>(std::move(text));
}

CharIndex::CharIndex(std::shared_ptr<const MappedFiles> text) : text_(std::move(text)) {
  std::vector<bool> seen(0x110000);
  size_t source = 0;
  for_each_character(*text_, 0, [&](char32_t code, const char* at, const auto& piece) {
    for (; source < piece.source; ++source) {
      ends_.push_back(size_);
    }
    if (size_ % kStride == 0) {
      marks_.push_back(piece.begin + (at - as_text(piece.owner->bytes()).data()));
    }
    seen[code] = true;
    ++size_;
    return true;
  });
  ends_.resize(text_->sources().size(), size_);
  for (char32_t code = 0; code < seen.size(); ++code) {
    if (seen[code]) {
      characters_.push_back(code);
    }
  }
  if (size_ == text_->size()) {
    marks_ = {};
  }
}

int64_t CharIndex::offset_of(int64_t index) const {
  check_range(index, 1, size_);
  if (marks_.empty()) {
    return index;
  }
  int64_t offset = marks_[index / kStride];
  int64_t left = index % kStride;
  while (left > 0) {
    const MappedFiles::Piece piece = text_->at(offset);
    size_t at = 0;
    for (; left > 0 && at < piece.bytes.size(); --left) {
      const int length = decode_utf8(piece.bytes, at).length;
      if (length == 0) {
        fail_utf8(*text_, piece, piece.bytes.data() + at);
      }
      at += length;
    }
    offset += static_cast<int64_t>(at);
  }
  return offset;
}

TokenStreamPtr char_stream(std::shared_ptr<const CharIndex> index,
                           std::shared_ptr<const CharTokenizer> tokenizer) {
  const std::vector<char32_t>& present = index->characters();
  const auto strange = std::find_if(present.begin(), present.end(),
                                    [&](char32_t code) { return tokenizer->id_of(code) < 0; });
  if (strange != present.end()) {
    const MappedFiles& text = *index->text();
    for_each_character(text, 0, [&](char32_t code, const char* at, const auto& piece) {
      if (tokenizer->id_of(code) < 0) {
        throw IoError(fmt::format("{}: {} at byte {} is not among the tokenizer's {} characters",
                                  text.sources()[piece.source].path, describe_character(code),
                                  at - as_text(piece.owner->bytes()).data(),
                                  tokenizer->vocab_size()));
      }
      return true;
    });
  }
  return std::make_shared<CharStream>(std::move(index), std::move(tokenizer));
}

}  // namespace mstrain
