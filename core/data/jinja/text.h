// A string that knows which of its bytes came from outside: what a user wrote stays known as that through concatenation,
// slices and replacements, so that it can be told from what a template wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mstrain::jinja {

class Text {
 public:
  Text() = default;
  // `bytes` are UTF-8.
  explicit Text(std::string_view bytes, bool from_outside = false)
      : bytes_(bytes), outside_(bytes.size(), from_outside ? kOutside : '\0') {}

  const std::string& bytes() const { return bytes_; }
  // For each byte: not 0 where it came from outside.
  const std::string& outside() const { return outside_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  Text substr(size_t begin, size_t count = std::string::npos) const {
    Text out;
    out.bytes_ = bytes_.substr(begin, count);
    out.outside_ = outside_.substr(begin, count);
    return out;
  }
  void append(const Text& other) {
    bytes_ += other.bytes_;
    outside_ += other.outside_;
  }
  // Bytes that stand for the byte `at` of `from`, as an escape does.
  void append_for(std::string_view bytes, const Text& from, size_t at) {
    bytes_ += bytes;
    outside_.append(bytes.size(), from.outside_[at]);
  }

  // Bytes alone.
  friend bool operator==(const Text& a, const Text& b) { return a.bytes_ == b.bytes_; }

 private:
  static constexpr char kOutside = 1;

  std::string bytes_;
  std::string outside_;
};

// Length in bytes of the character at bytes[at], which is UTF-8.
inline size_t character_size(std::string_view bytes, size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  const size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return size < bytes.size() - at ? size : bytes.size() - at;
}

// Length in bytes of the white space at bytes[at], as Python knows it; 0: there is none.
size_t space_size(std::string_view bytes, size_t at);
// `bytes` without white space at its start, or end.
std::string_view without_leading_space(std::string_view bytes);
std::string_view without_trailing_space(std::string_view bytes);

}  // namespace mstrain::jinja
