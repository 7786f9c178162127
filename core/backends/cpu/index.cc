// gather, scatter_add and one_hot. Ids are checked before anything is written.
#include <cstring>

#include "core/backends/cpu/ids.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/scalar_math.h"

namespace mstrain::cpu {
namespace {

// x[outer, length, inner] and ids[count].
struct Geometry {
  int64_t outer = 1, length = 0, inner = 1, count = 0;
  Dtype ids = Dtype::kI32;

  explicit Geometry(const KernelRequest& request) {
    const Shape& x = request.inputs[0].type.shape;
    const auto axis = static_cast<int>(request.attrs.integer("axis"));
    for (int d = 0; d < x.rank(); ++d) {
      (d < axis    ? outer
       : d == axis ? length
                   : inner) = (d < axis    ? outer
                               : d == axis ? 1
                                           : inner) *
                              x[d];
    }
    ids = request.inputs[1].type.dtype;
    count = request.inputs[1].type.elements();
  }
};

template <class T>
void copy_elements(const Geometry& n, const Ids& ids, int64_t begin, int64_t end, const void* from,
                   void* to) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  for (int64_t at = begin; at < end; ++at) {
    y[at] = x[at / n.count * n.length + ids[at % n.count]];
  }
}

Kernel prepare_gather(const KernelRequest& request) {
  const Geometry n(request);
  const int size = size_of(request.inputs[0].type.dtype);
  const int64_t pieces = n.outer * n.count;
  const int threads = useful_threads(request.threads, pieces, pieces * n.inner);
  return {[n, size, pieces, threads](const KernelMemory& memory) {
    const Ids ids(memory.inputs[1], n.ids);
    check_ids("gather", ids, n.count, n.length);
    const std::byte* x = static_cast<const std::byte*>(memory.inputs[0]);
    std::byte* y = static_cast<std::byte*>(memory.outputs[0]);
    const int64_t row = n.inner * size;
    parallel_chunks(threads, pieces, 1, [&](int64_t begin, int64_t end, int) {
      if (n.inner == 1) {
        switch (size) {
          case 1: copy_elements<uint8_t>(n, ids, begin, end, x, y); break;
          case 2: copy_elements<uint16_t>(n, ids, begin, end, x, y); break;
          case 4: copy_elements<uint32_t>(n, ids, begin, end, x, y); break;
          default: copy_elements<uint64_t>(n, ids, begin, end, x, y); break;
        }
        return;
      }
      for (int64_t at = begin; at < end; ++at) {
        const int64_t from = at / n.count * n.length + ids[at % n.count];
        std::memcpy(y + at * row, x + from * row, static_cast<size_t>(row));
      }
    });
  }};
}

template <class T>
void add_row(int64_t n, const T* x, T* y) {
  if constexpr (std::is_floating_point_v<T>) {
    loops().rows<T>().add_to(n, x, y);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<T>(scalar::add<int64_t>(y[i], x[i]));
    }
  }
}

// Sums of 16-bit floats are left to the reference, which rounds each of them once.
bool supports_scatter(const KernelRequest& request) {
  const Dtype dtype = request.inputs[0].type.dtype;
  return dtype != Dtype::kBF16 && dtype != Dtype::kF16 && dtype != Dtype::kBool;
}

// Threads own columns, or planes of `outer`, so that every sum runs in ascending order of positions.
template <class T>
Kernel make_scatter(const KernelRequest& request) {
  constexpr int64_t kColumns = 16;
  const Geometry n(request);
  const int64_t strips = n.outer * ((n.inner + kColumns - 1) / kColumns);
  const int threads =
      useful_threads(request.threads, strips, n.outer * n.inner * (n.length + n.count));
  return {[n, threads, bytes = static_cast<size_t>(request.inputs[0].type.bytes())](
              const KernelMemory& memory) {
    const Ids ids(memory.inputs[1], n.ids);
    check_ids("scatter_add", ids, n.count, n.length);
    const T* updates = static_cast<const T*>(memory.inputs[2]);
    T* y = static_cast<T*>(memory.outputs[0]);
    if (y != memory.inputs[0]) {
      parallel_chunks(threads, static_cast<int64_t>(bytes), 4096,
                      [&](int64_t begin, int64_t end, int) {
                        std::memcpy(reinterpret_cast<std::byte*>(y) + begin,
                                    static_cast<const std::byte*>(memory.inputs[0]) + begin,
                                    static_cast<size_t>(end - begin));
                      });
    }
    const auto add = [&](int64_t o, int64_t column, int64_t width) {
      for (int64_t i = 0; i < n.count; ++i) {
        add_row(width, updates + (o * n.count + i) * n.inner + column,
                y + (o * n.length + ids[i]) * n.inner + column);
      }
    };
    if (n.outer >= threads) {
      parallel_chunks(threads, n.outer, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t o = begin; o < end; ++o) {
          add(o, 0, n.inner);
        }
      });
      return;
    }
    for (int64_t o = 0; o < n.outer; ++o) {
      parallel_chunks(threads, n.inner, kColumns,
                      [&](int64_t begin, int64_t end, int) { add(o, begin, end - begin); });
    }
  }};
}

Kernel prepare_scatter(const KernelRequest& request) {
  return visit_dtype(request.inputs[0].type.dtype, [&]<class T>(T) -> Kernel {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      return make_scatter<T>(request);
    } else {
      fail("scatter_add: no kernel for {}", name_of(dtype_of<T>));
    }
  });
}

Kernel prepare_one_hot(const KernelRequest& request) {
  const int64_t depth = request.attrs.integer("depth");
  const int64_t count = request.inputs[0].type.elements();
  const Dtype ids_type = request.inputs[0].type.dtype;
  const auto bytes = static_cast<size_t>(request.outputs[0].type.bytes());
  return visit_dtype(request.outputs[0].type.dtype, [&]<class T>(T) -> Kernel {
    return {[=](const KernelMemory& memory) {
      const Ids ids(memory.inputs[0], ids_type);
      check_ids("one_hot", ids, count, depth);
      std::memset(memory.outputs[0], 0, bytes);
      T* y = static_cast<T*>(memory.outputs[0]);
      for (int64_t i = 0; i < count; ++i) {
        y[i * depth + ids[i]] = static_cast<T>(1.0F);
      }
    }};
  });
}

}  // namespace

void register_index() {
  register_kernel(Backend::kCpu, "gather", {.prepare = prepare_gather});
  register_kernel(Backend::kCpu, "scatter_add",
                  {.prepare = prepare_scatter, .supports = supports_scatter, .in_place = {{0, 0}}});
  register_kernel(Backend::kCpu, "one_hot", {.prepare = prepare_one_hot});
}

}  // namespace mstrain::cpu
