// Text files as token streams under the byte and char tokenizers. The files follow each other with
// nothing between them; each is a document.
#pragma once

#include <memory>
#include <vector>

#include "core/data/mapped_files.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/token_stream.h"

namespace mstrain {

// Token i is byte i.
TokenStreamPtr byte_stream(std::shared_ptr<const MappedFiles> text);

// What one pass over UTF-8 text finds: what a char stream needs, and the characters that a
// tokenizer is made of.
class CharIndex {
 public:
  // Throws IoError with file and offset where the bytes are not valid UTF-8.
  explicit CharIndex(std::shared_ptr<const MappedFiles> text);

  const std::shared_ptr<const MappedFiles>& text() const { return text_; }
  int64_t size() const { return size_; }                      // in characters
  const std::vector<int64_t>& ends() const { return ends_; }  // of the files, in characters
  const std::vector<char32_t>& characters() const { return characters_; }

  // Byte offset of character `index`, 0 <= index < size().
  int64_t offset_of(int64_t index) const;

 private:
  std::shared_ptr<const MappedFiles> text_;
  int64_t size_ = 0;
  std::vector<int64_t> ends_;
  std::vector<char32_t> characters_;  // distinct, ascending
  std::vector<int64_t>
      marks_;  // offset of every kStride-th character; empty where all are one byte
};

// Token i is the id of character i. Throws IoError with file, offset and character where
// `tokenizer` has no id for one.
TokenStreamPtr char_stream(std::shared_ptr<const CharIndex> index,
                           std::shared_ptr<const CharTokenizer> tokenizer);

}  // namespace mstrain
