// Memory for foreign code to write into.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace mstrain {

// Numbers that foreign code fills in: what it leaves out is NaN, what it writes beyond the end is found.
template <class T>
class Filled {
 public:
  explicit Filled(size_t size) : numbers_(size + kGuard) {}
  T* begin() {
    std::fill(numbers_.begin(), numbers_.end(), std::numeric_limits<T>::quiet_NaN());
    std::memset(numbers_.data() + size(), kMark, kGuard * sizeof(T));
    return numbers_.data();
  }
  bool is_overrun() const {
    const auto* guard = reinterpret_cast<const unsigned char*>(numbers_.data() + size());
    return std::any_of(guard, guard + kGuard * sizeof(T),
                       [](unsigned char c) { return c != kMark; });
  }
  size_t size() const { return numbers_.size() - kGuard; }
  const T* data() const { return numbers_.data(); }

 private:
  static constexpr size_t kGuard = 16;
  static constexpr unsigned char kMark = 0xA5;
  std::vector<T> numbers_;
};

}  // namespace mstrain
