// Tensors to and from host memory: the one door. What is read is waited for, no more; what stopped its computation is
// thrown here.
#pragma once

#include <span>
#include <string>

#include "core/ir/arg.h"

namespace mstrain {

// Copies `values` (row-major, as many as `shape` has) into a new tensor of the current context.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape);
// A copy of raw elements of any dtype.
Tensor tensor_from_bytes(const void* data, const TensorType& type);
// A vector; dtype is given, so that `values({1, 2}, Dtype::kI32)` is exact.
Tensor vector(std::initializer_list<double> values, Dtype dtype = Dtype::kF32);
Tensor scalar(double value, Dtype dtype = Dtype::kF32);
// An uninitialised tensor, for a HostWrite or a kernel to fill; nobody else may hold it yet.
Tensor uninitialised(const TensorType& type);
// The same in the host's own memory, whatever the context computes on.
Tensor uninitialised_on_host(const TensorType& type);

// A tensor where the host can read it: in place on the host's own device, elsewhere a copy. Lives as long as this.
class HostRead {
 public:
  // Throws inside jit, naming the line: there is no value yet.
  explicit HostRead(const Tensor& x, const SourceLocation& where = SourceLocation::current());

  // Element (0, …, 0); others by the tensor's strides.
  const std::byte* data() const { return data_; }
  // All elements in row-major order; the tensor must be dense.
  std::span<const std::byte> bytes() const;
  template <class T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(data_), bytes().size() / sizeof(T)};
  }

 private:
  Tensor x_;
  Buffer copy_;
  const std::byte* data_ = nullptr;
};

// Copies `to.size()` bytes of a dense tensor, `from` bytes from its start.
void read_bytes(const Tensor& x, int64_t from, std::span<std::byte> to);

// A dense tensor where the host can write it: in place on the host's own device, elsewhere memory of the host that
// finish() sends there.
class HostWrite {
 public:
  // `to` holds nothing that anybody may still want to read.
  explicit HostWrite(Tensor to);
  explicit HostWrite(const TensorType& type) : HostWrite(uninitialised(type)) {}

  std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(to_.type().bytes())}; }
  template <class T>
  std::span<T> values() const {
    return {reinterpret_cast<T*>(data_), bytes().size() / sizeof(T)};
  }
  // All is written, and nothing more will be.
  Tensor finish();

 private:
  Tensor to_;
  Buffer staging_;
  std::byte* data_ = nullptr;
};

// The elements in row-major order. Throws inside jit, naming the line: there is no value yet.
template <class T>
std::vector<T> to_vector(const Tensor& x, const SourceLocation& where = SourceLocation::current());
// The elements converted to double, whatever the dtype.
std::vector<double> to_doubles(const Tensor& x,
                               const SourceLocation& where = SourceLocation::current());
// The only element, converted to double.
double item(const Tensor& x, const SourceLocation& where = SourceLocation::current());
// The same values laid out densely (the tensor itself where it already is).
Tensor dense(const Tensor& x);

// "f32[2, 2] [[1, 2], [3, 4]]", shortened in the middle when large.
std::string to_text(const Tensor& x);

}  // namespace mstrain
