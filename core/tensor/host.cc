#include "core/tensor/host.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/ops/shape.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

void check_concrete(const Tensor& x, std::string_view what, const SourceLocation& where) {
  if (!x.defined()) {
    fail("{} of an empty tensor, at {}", what, to_string(where));
  }
  if (!x.concrete()) {
    fail(
        "{} of a {} that has no value yet, at {}; inside jit, vmap and loops only the program is "
        "recorded: return the tensor and read it outside",
        what, to_string(x.type()), to_string(where));
  }
}

void check_dense(const Tensor& x, std::string_view what) {
  if (!x.view().contiguous()) {
    fail("{} is {} as a whole, but is not dense", to_string(x.type()), what);
  }
}

Tensor allocated(const TensorType& type, const std::shared_ptr<Allocator>& allocator) {
  return {type, Buffer::allocate(allocator, std::max<int64_t>(type.bytes(), 1)), 0,
          contiguous_strides(type.shape)};
}

// For what passes through the host on its way to or from a device.
Buffer staging_for(Device& device, int64_t bytes) {
  return Buffer::allocate(device.staging(), std::max<int64_t>(bytes, 1));
}

// Calls f(i, address) for each element in row-major order.
template <class F>
void for_each_element(const Tensor& x, const SourceLocation& where, const F& f) {
  const Shape& shape = x.shape();
  const HostRead read(x, where);
  const std::byte* const base = read.data();
  const int64_t size = size_of(x.dtype());
  Shape index = Shape::filled(shape.rank(), 0);
  const int64_t count = x.elements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      offset += index[d] * x.strides()[d];
    }
    f(i, base + offset * size);
    for (int d = shape.rank() - 1; d >= 0 && ++index[d] == shape[d]; --d) {
      index[d] = 0;
    }
  }
}

// The elements in row-major order, converted to T.
template <class T>
std::vector<T> converted(const Tensor& x, const SourceLocation& where) {
  std::vector<T> values(static_cast<size_t>(x.elements()));
  visit_dtype(x.dtype(), [&]<class Element>(Element) {
    for_each_element(x, where, [&](int64_t i, const std::byte* address) {
      values[static_cast<size_t>(i)] = static_cast<T>(*reinterpret_cast<const Element*>(address));
    });
  });
  return values;
}

std::string number_text(double value) { return fmt::format("{:.6g}", value); }
std::string number_text(int64_t value) { return fmt::format("{}", value); }

// Row-major values from `at` on, in brackets; long rows are cut in the middle.
template <class T>
void append_text(const std::vector<T>& values, const Shape& shape, int axis, size_t& at,
                 std::string& text) {
  if (axis == shape.rank()) {
    text += number_text(values[at++]);
    return;
  }
  constexpr int64_t kShown = 8;
  int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) {
    inner *= shape[d];
  }
  text += '[';
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (shape[axis] > kShown && i == kShown / 2) {
      const int64_t skipped = shape[axis] - kShown;
      text += ", …";
      i += skipped;
      at += static_cast<size_t>(skipped * inner);
    }
    text += i == 0 ? "" : ", ";
    append_text(values, shape, axis + 1, at, text);
  }
  text += ']';
}

}  // namespace

Tensor uninitialised(const TensorType& type) {
  return allocated(type, current_context().allocator);
}

Tensor uninitialised_on_host(const TensorType& type) {
  const Context& context = current_context();
  return allocated(type,
                   context.device().is_host() ? context.allocator : context.device().staging());
}

HostRead::HostRead(const Tensor& x, const SourceLocation& where) : x_(x) {
  check_concrete(x, "a read", where);
  const Buffer& buffer = x.buffer();
  const int64_t size = size_of(x.dtype());
  if (buffer.device().is_host()) {
    data_ = buffer.data() + x.offset() * size;
    return;
  }
  // From the lowest element to the highest.
  int64_t low = x.offset();
  int64_t high = x.offset();
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t last = (x.shape()[d] - 1) * x.strides()[d];
    (last < 0 ? low : high) += last;
  }
  const int64_t bytes = x.elements() == 0 ? 0 : (high - low + 1) * size;
  copy_ = staging_for(buffer.device(), bytes);
  buffer.read(low * size, {copy_.data(), static_cast<size_t>(bytes)});
  data_ = copy_.data() + (x.offset() - low) * size;
}

std::span<const std::byte> HostRead::bytes() const {
  check_dense(x_, "read");
  return {data_, static_cast<size_t>(x_.type().bytes())};
}

void read_bytes(const Tensor& x, int64_t from, std::span<std::byte> to) {
  check_dense(x, "read");
  x.buffer().read(x.offset() * size_of(x.dtype()) + from, to);
}

HostWrite::HostWrite(Tensor to) : to_(std::move(to)) {
  check_dense(to_, "written");
  if (to_.buffer().device().is_host()) {
    data_ = to_.buffer().data() + to_.offset() * size_of(to_.dtype());
  } else {
    staging_ = staging_for(to_.buffer().device(), to_.type().bytes());
    data_ = staging_.data();
  }
}

Tensor HostWrite::finish() {
  if (staging_) {
    to_.buffer().write(to_.offset() * size_of(to_.dtype()), staging_, to_.type().bytes());
  }
  staging_ = Buffer();
  return std::move(to_);
}

Tensor tensor_from_bytes(const void* data, const TensorType& type) {
  HostWrite result(type);
  if (type.bytes() > 0) {
    std::memcpy(result.bytes().data(), data, static_cast<size_t>(type.bytes()));
  }
  return result.finish();
}

template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape) {
  if (static_cast<int64_t>(values.size()) != shape.elements()) {
    fail("tensor: {} values for shape {}", values.size(), to_string(shape));
  }
  return tensor_from_bytes(values.data(), {dtype_of<T>, shape});
}

Tensor vector(std::initializer_list<double> values, Dtype dtype) {
  HostWrite result({dtype, {static_cast<int64_t>(values.size())}});
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::transform(values, result.values<T>().begin(), [](double value) {
      return static_cast<T>(static_cast<std::conditional_t<std::is_class_v<T>, float, T>>(value));
    });
  });
  return result.finish();
}

Tensor scalar(double value, Dtype dtype) { return reshape(vector({value}, dtype), {}); }

template <class T>
std::vector<T> to_vector(const Tensor& x, const SourceLocation& where) {
  check_concrete(x, "to_vector", where);
  if (x.dtype() != dtype_of<T>) {
    fail("to_vector: the tensor is {}, not {}, at {}", name_of(x.dtype()), name_of(dtype_of<T>),
         to_string(where));
  }
  std::vector<T> values(static_cast<size_t>(x.elements()));
  for_each_element(x, where, [&](int64_t i, const std::byte* address) {
    values[static_cast<size_t>(i)] = *reinterpret_cast<const T*>(address);
  });
  return values;
}

std::vector<double> to_doubles(const Tensor& x, const SourceLocation& where) {
  check_concrete(x, "to_doubles", where);
  return converted<double>(x, where);
}

double item(const Tensor& x, const SourceLocation& where) {
  check_concrete(x, "item", where);
  if (x.elements() != 1) {
    fail("item: {} has {} elements, at {}", to_string(x.type()), x.elements(), to_string(where));
  }
  const HostRead read(x, where);
  return visit_dtype(x.dtype(), [&]<class T>(T) {
    return static_cast<double>(*reinterpret_cast<const T*>(read.data()));
  });
}

Tensor dense(const Tensor& x) { return x.concrete() && !x.view().contiguous() ? copy(x) : x; }

std::string to_text(const Tensor& x) {
  if (!x.defined()) {
    return "(empty)";
  }
  std::string text = to_string(x.type()) + " ";
  if (!x.concrete()) {
    return text + "(traced)";
  }
  const SourceLocation here = SourceLocation::current();
  size_t at = 0;
  if (is_floating(x.dtype())) {
    append_text(converted<double>(x, here), x.shape(), 0, at, text);
  } else {
    append_text(converted<int64_t>(x, here), x.shape(), 0, at, text);
  }
  return text;
}

#define MSTRAIN_INSTANTIATE(T)                              \
  template Tensor tensor(std::span<const T>, const Shape&); \
  template std::vector<T> to_vector(const Tensor&, const SourceLocation&);
MSTRAIN_INSTANTIATE(double)
MSTRAIN_INSTANTIATE(float)
MSTRAIN_INSTANTIATE(BFloat16)
MSTRAIN_INSTANTIATE(Float16)
MSTRAIN_INSTANTIATE(int64_t)
MSTRAIN_INSTANTIATE(int32_t)
MSTRAIN_INSTANTIATE(int8_t)
MSTRAIN_INSTANTIATE(uint32_t)
MSTRAIN_INSTANTIATE(uint16_t)
MSTRAIN_INSTANTIATE(uint8_t)
#undef MSTRAIN_INSTANTIATE

}  // namespace mstrain
