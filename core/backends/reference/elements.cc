#include "core/backends/reference/elements.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace mstrain::reference {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
T saturated(double value) {
  if (std::isnan(value)) {
    return 0;
  }
  // As doubles the limits of 64 bits round up, so that the upper comparison is not strict.
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

}  // namespace

std::byte* Elements::address(int64_t position) const {
  int64_t offset = 0;
  for (int d = rank() - 1; d >= 0; --d) {
    offset += position % dim(d) * view_.strides[d];
    position /= dim(d);
  }
  return past(offset);
}

std::byte* Elements::address_at(const Shape& index) const {
  int64_t offset = 0;
  for (int d = 0; d < rank(); ++d) {
    offset += index[d] * view_.strides[d];
  }
  return past(offset);
}

double Elements::load_number(const std::byte* at) const {
  return visit_dtype(dtype(),
                     [&](auto type) { return static_cast<double>(load<decltype(type)>(at)); });
}

int64_t Elements::load_integer(const std::byte* at) const {
  return visit_dtype(dtype(), [&](auto type) -> int64_t {
    using T = decltype(type);
    if constexpr (is_floating(dtype_of<T>)) {
      fail("an integer is read from {}", name_of(dtype()));
    } else {
      return static_cast<int64_t>(load<T>(at));
    }
  });
}

void Elements::store_number(std::byte* at, double value) const {
  visit_dtype(dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (dtype_of<T> == Dtype::kBool) {
      store(at, value != 0);
    } else if constexpr (is_integer(dtype_of<T>)) {
      store(at, saturated<T>(value));
    } else if constexpr (dtype_of<T> == Dtype::kF64) {
      store(at, value);
    } else {
      store(at, T(static_cast<float>(value)));
    }
  });
}

void Elements::store_integer(std::byte* at, int64_t value) const {
  visit_dtype(dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (dtype_of<T> == Dtype::kBool) {
      store(at, value != 0);
    } else if constexpr (is_integer(dtype_of<T>) || dtype_of<T> == Dtype::kF64) {
      store(at, static_cast<T>(value));
    } else {
      store(at, T(static_cast<float>(value)));
    }
  });
}

void Elements::copy_bits(std::byte* to, const std::byte* from) const {
  std::memcpy(to, from, static_cast<size_t>(size_of(dtype())));
}

int64_t position_of(const Shape& shape, const Shape& index) {
  int64_t position = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    position = position * shape[d] + index[d];
  }
  return position;
}

}  // namespace mstrain::reference
