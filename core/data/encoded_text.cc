#include "core/data/encoded_text.h"

#include "core/base/error.h"
#include "core/data/documents.h"

namespace mstrain {
namespace {

template <class T>
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add(const SourceFile& source) {
    try {
      if (is_json_lines(source.path)) {
        JsonLines lines(source.path);
        for (std::string text; lines.next(text);) {
          begin();
          tokenizer_.encode_some(text, /*last=*/true, state_, ids_);
          flush();
        }
      } else {
        begin();
        add_text(source.path);
      }
    } catch (const IoError&) {
      throw;
    } catch (const Error& error) {
      throw IoError(fmt::format("{}: {}", source.path, error.what()));
    }
  }

  TokenStreamPtr finish() {
    if (!tokens_.empty() || is_open_) {
      ends_.push_back(static_cast<int64_t>(tokens_.size()));
    }
    return memory_stream(std::move(tokens_), std::move(ends_));
  }

 private:
  void begin() {
    if (is_open_) {
      if (const auto end = tokenizer_.end_of_text()) {
        tokens_.push_back(static_cast<T>(*end));
      }
      ends_.push_back(static_cast<int64_t>(tokens_.size()));
    }
    is_open_ = true;
    state_ = {};
    const std::vector<int32_t>& before = special_.before;
    tokens_.insert(tokens_.end(), before.begin(), before.end());
  }
  void add_text(const std::string& path) {
    ChunkReader reader(path);
    size_t wanted = 1;
    do {
      while (reader.text().size() < wanted && !reader.at_end()) {
        reader.more();
      }
      const size_t size = reader.text().size();
      const size_t taken = tokenizer_.encode_some(reader.text(), reader.at_end(), state_, ids_);
      reader.take(taken);
      wanted = taken == 0 ? 2 * size : size - taken + 1;
      flush();
    } while (!reader.at_end());
  }
  void flush() {
    tokens_.insert(tokens_.end(), ids_.begin(), ids_.end());
    ids_.clear();
  }

  const Tokenizer& tokenizer_;
  const SpecialIds special_ = tokenizer_.special();
  EncodeState state_;
  bool is_open_ = false;
  std::vector<int32_t> ids_;
  std::vector<T> tokens_;
  std::vector<int64_t> ends_;
};

template <class T>
TokenStreamPtr encode(const std::vector<SourceFile>& sources, const Tokenizer& tokenizer) {
  Encoder<T> encoder(tokenizer);
  for (const SourceFile& source : sources) {
    encoder.add(source);
  }
  return encoder.finish();
}

}  // namespace

TokenStreamPtr encoded_text(const std::vector<SourceFile>& sources, const Tokenizer& tokenizer) {
  return tokenizer.vocab_size() <= 65536 ? encode<uint16_t>(sources, tokenizer)
                                         : encode<int32_t>(sources, tokenizer);
}

}  // namespace mstrain
