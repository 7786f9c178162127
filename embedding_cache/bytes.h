// Little-endian numbers into the bytes of a file and out of them again.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

namespace mstrain::embedding_cache {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Takes from the front of `bytes`, which must outlive it. What is wrong with them is an IoError that starts with `name`.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}
  ByteReader(std::string_view bytes, std::string name)
      : ByteReader(as_bytes(bytes), std::move(name)) {}

  size_t left() const { return bytes_.size(); }
  void require(bool condition, const char* message) const {
    if (!condition) {
      throw IoError(name_ + ": " + message);
    }
  }
  std::span<const std::byte> take_bytes(uint64_t count) {
    require(count <= bytes_.size(), "cut short");
    const std::span<const std::byte> out = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return out;
  }
  std::string_view take_text(uint64_t count) { return as_text(take_bytes(count)); }
  template <class T>
  T take() {
    T value{};
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  // A count of things of `each` bytes, all of which must still follow.
  uint64_t take_count(uint64_t each) {
    const auto count = take<uint64_t>();
    require(count <= bytes_.size() / each, "cut short");
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
};

}  // namespace mstrain::embedding_cache
