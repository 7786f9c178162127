// Numbers as bytes and back, for states that are saved (little-endian, as the processors are that this runs on).
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace mstrain::reinforcement {

class ByteWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void put_all(const std::vector<T>& values) {
    put_all(std::span<const T>(values));
  }
  template <class T>
  void put_all(std::span<const T> values) {
    put<uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void put_text(std::string_view text) {
    put<uint64_t>(text.size());
    bytes_.append(text);
  }
  // Room for so many bytes more: what is large is then written without being moved.
  void reserve(size_t more) { bytes_.reserve(bytes_.size() + more); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Throws Error beginning with `name` where the bytes end early or do not fit.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  template <class T>
  T get() {
    T value;
    std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
    return value;
  }
  // Exactly `size` of them.
  template <class T>
  std::vector<T> get_all(size_t size) {
    const auto found = get<uint64_t>();
    check(size <= bytes_.size() / sizeof(T), "{}: a saved state ends early", name_);
    check(found == size, "{}: a saved list of {} where {} are expected", name_, found, size);
    std::vector<T> values(size);
    const std::string_view from = next(size * sizeof(T));
    if (size > 0) {
      std::memcpy(values.data(), from.data(), from.size());
    }
    return values;
  }
  // Of the list that is next; get_all() reads it.
  uint64_t size_of_next() const {
    ByteReader ahead = *this;
    return ahead.get<uint64_t>();
  }
  std::string_view get_text() {
    const auto size = get<uint64_t>();
    return next(size);
  }
  void expect_text(std::string_view expected) {
    const std::string_view found = get_text();
    check(found == expected, "{}: a saved state of \"{}\" where \"{}\" is expected", name_, found,
          expected);
  }
  void expect_end() const {
    check(bytes_.empty(), "{}: {} bytes too many in a saved state", name_, bytes_.size());
  }

 private:
  std::string_view next(uint64_t size) {
    check(size <= bytes_.size(), "{}: a saved state ends early", name_);
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }
  std::string_view bytes_;
  std::string name_;
};

}  // namespace mstrain::reinforcement
