// Tensors as reference kernels see them: any dtype and strides, one element at a time.
#pragma once

#include "core/runtime/view.h"

namespace mstrain::reference {

// A view of somebody else's memory. Elements are named by their position in row-major order, or by
// their index.
class Elements {
 public:
  Elements(const ViewType& view, void* data) : view_(view), data_(static_cast<std::byte*>(data)) {}

  Dtype dtype() const { return view_.type.dtype; }
  const Shape& shape() const { return view_.type.shape; }
  int rank() const { return shape().rank(); }
  int64_t dim(int axis) const { return shape()[axis]; }
  int64_t count() const { return view_.type.elements(); }
  // Elements of memory between neighbours along an axis.
  int64_t stride(int axis) const { return view_.strides[axis]; }

  double number(int64_t position) const { return load_number(address(position)); }
  double number_at(const Shape& index) const { return load_number(address_at(index)); }
  // So many elements of memory after the first.
  double number_past(int64_t offset) const { return load_number(past(offset)); }
  int64_t integer_past(int64_t offset) const { return load_integer(past(offset)); }
  int64_t integer(int64_t position) const { return load_integer(address(position)); }
  int64_t integer_at(const Shape& index) const { return load_integer(address_at(index)); }

  // Rounds to nearest even; to integers: truncates towards zero and saturates, NaN is 0; to bool:
  // whether it is not 0.
  void set(int64_t position, double value) const { store_number(address(position), value); }
  // Integers wrap.
  void set_integer(int64_t position, int64_t value) const {
    store_integer(address(position), value);
  }

  // The same bits.
  void copy(int64_t position, const Elements& from, int64_t from_position) const {
    copy_bits(address(position), from.address(from_position));
  }
  void copy_at(const Shape& index, const Elements& from, const Shape& from_index) const {
    copy_bits(address_at(index), from.address_at(from_index));
  }

 private:
  std::byte* past(int64_t offset) const { return data_ + offset * size_of(dtype()); }
  std::byte* address(int64_t position) const;
  std::byte* address_at(const Shape& index) const;
  double load_number(const std::byte* at) const;
  int64_t load_integer(const std::byte* at) const;
  void store_number(std::byte* at, double value) const;
  void store_integer(std::byte* at, int64_t value) const;
  void copy_bits(std::byte* to, const std::byte* from) const;

  ViewType view_;
  std::byte* data_;
};

// The position of an index in row-major order.
int64_t position_of(const Shape& shape, const Shape& index);

// f(index, position) for every index of `shape` in row-major order.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  Shape index = Shape::filled(shape.rank(), 0);
  const int64_t count = shape.elements();
  for (int64_t position = 0; position < count; ++position) {
    f(static_cast<const Shape&>(index), position);
    for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape[d]; --d) {
      index[d] = 0;
    }
  }
}

}  // namespace mstrain::reference
