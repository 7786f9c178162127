// concat and pad: copies of whole rows between dense tensors, and of elements where padding lies between them.
#include <cstring>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/nest.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

// out[outer, sum of lengths, inner] from parts [outer, length, inner]; lengths in bytes.
Kernel prepare_concat(const KernelRequest& request) {
  const Shape& shape = request.outputs[0].type.shape;
  const auto axis = static_cast<int>(request.attrs.integer("axis"));
  int64_t outer = 1;
  for (int d = 0; d < axis; ++d) {
    outer *= shape[d];
  }
  std::vector<int64_t> bytes;
  int64_t row = 0;
  for (const ViewType& view : request.inputs) {
    bytes.push_back(outer == 0 ? 0 : view.type.bytes() / outer);
    row += bytes.back();
  }
  const int threads = useful_threads(request.threads, outer, request.outputs[0].type.bytes() / 4);
  return {[bytes, row, outer, threads](const KernelMemory& memory) {
    std::byte* y = static_cast<std::byte*>(memory.outputs[0]);
    parallel_chunks(threads, outer, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        std::byte* to = y + o * row;
        for (size_t i = 0; i < bytes.size(); ++i) {
          if (bytes[i] > 0) {  // what is empty has no address
            std::memcpy(to, static_cast<const std::byte*>(memory.inputs[i]) + o * bytes[i],
                        static_cast<size_t>(bytes[i]));
            to += bytes[i];
          }
        }
      }
    });
  }};
}

template <class T>
T number(double value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Fills, then writes the input through the strides that its elements have in the output.
template <class T>
Kernel make_pad(const KernelRequest& request) {
  const Shape& in = request.inputs[0].type.shape;
  const Shape& low = request.attrs.ints("low");
  const Shape& inner = request.attrs.ints("inner");
  std::array<Shape, 2> strides = {contiguous_strides(in),
                                  contiguous_strides(request.outputs[0].type.shape)};
  int64_t offset = 0;
  for (int d = 0; d < in.rank(); ++d) {
    offset += low[d] * strides[1][d];
    strides[1][d] *= inner[d] + 1;
  }
  const T value = number<T>(request.attrs.number("value"));
  const int64_t total = request.outputs[0].type.elements();
  const int64_t count = request.inputs[0].type.elements();
  const Nest nest = count == 0 ? Nest() : make_nest(in, strides);
  const int threads = useful_threads(request.threads, total / 1024 + 1, total);
  return {[=](const KernelMemory& memory) {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    T* y = static_cast<T*>(memory.outputs[0]);
    parallel_chunks(threads, total, 64,
                    [&](int64_t begin, int64_t end, int) { std::fill(y + begin, y + end, value); });
    if (count == 0) {
      return;
    }
    const int64_t n = nest.inner();
    const int64_t step = nest.inner_stride(1);
    parallel_chunks(threads, count / n, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = y + offset + nest.row_offset(1, row);
        for (int64_t i = 0; i < n; ++i) {
          to[i * step] = x[row * n + i];
        }
      }
    });
  }};
}

Kernel prepare_pad(const KernelRequest& request) {
  return visit_dtype(request.inputs[0].type.dtype,
                     [&]<class T>(T) -> Kernel { return make_pad<T>(request); });
}

}  // namespace

void register_movement() {
  register_kernel(table(), "concat", {.prepare = prepare_concat});
  register_kernel(table(), "pad", {.prepare = prepare_pad});
}

}  // namespace mstrain::cpu
