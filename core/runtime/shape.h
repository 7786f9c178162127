// Dims of a tensor, and index arithmetic on them. A value type without heap memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/base/error.h"

namespace mstrain {

inline constexpr int kMaxRank = 10;

// Up to kMaxRank integers: dims (in elements, each >= 0) or strides (in elements, 0 repeats an element, may be negative).
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    check(dims.size() <= kMaxRank, "a shape of {} dims; at most {} are supported", dims.size(),
          kMaxRank);
    rank_ = static_cast<int>(dims.size());
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }
  static Shape filled(int rank, int64_t value) {
    Shape shape;
    for (int i = 0; i < rank; ++i) {
      shape.push_back(value);
    }
    return shape;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  int64_t back() const { return dims_[static_cast<size_t>(rank_ - 1)]; }
  operator std::span<const int64_t>() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  void push_back(int64_t dim) {
    check(rank_ < kMaxRank, "a shape of more than {} dims", kMaxRank);
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
  // Before position `at` (0 … rank).
  Shape with_inserted(int at, int64_t dim) const;
  Shape without(int at) const;

  // Product of the dims: 1 for a scalar.
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t dim : *this) {
      product *= dim;
    }
    return product;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// "[8, 64, 128]"
std::string to_string(const Shape& shape);

// Row-major strides of a dense tensor.
Shape contiguous_strides(const Shape& shape);

// Whether `strides` walk `shape` densely in row-major order; dims of size 1 may have any stride.
bool is_contiguous(const Shape& shape, const Shape& strides);

}  // namespace mstrain
