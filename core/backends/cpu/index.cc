// Elements chosen by ids: gather, scatter_add, scatter_set, take_along, scatter_add_along and one_hot. Ids are checked before anything is written.
#include <cstring>

#include "core/backends/cpu/ids.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/words.h"
#include "core/ops/scalar_math.h"

namespace mstrain::cpu {
namespace {

// x[outer, length, inner], of which `count` places along the middle are chosen: by ids[count], or by each element's own of
// ids[outer, count, inner].
struct Geometry {
  int64_t outer = 1, length = 0, inner = 1, count = 0;
  int64_t ids_count = 0;
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
    ids_count = count = request.inputs[1].type.elements();
  }
  static Geometry along(const KernelRequest& request) {
    Geometry n(request);
    n.count = request.inputs[1].type.shape[static_cast<int>(request.attrs.integer("axis"))];
    return n;
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
        with_word(size, [&]<class T>(T) { copy_elements<T>(n, ids, begin, end, x, y); });
        return;
      }
      for (int64_t at = begin; at < end; ++at) {
        const int64_t from = at / n.count * n.length + ids[at % n.count];
        std::memcpy(y + at * row, x + from * row, static_cast<size_t>(row));
      }
    });
  }};
}

// The result starts as a copy of x, unless it takes its place.
void start_with(const KernelMemory& memory, int64_t bytes, int threads) {
  auto* const y = static_cast<std::byte*>(memory.outputs[0]);
  const auto* const x = static_cast<const std::byte*>(memory.inputs[0]);
  if (y != x) {
    parallel_chunks(threads, bytes, 4096, [&](int64_t begin, int64_t end, int) {
      std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin));
    });
  }
}

constexpr int64_t kColumns = 16;

// Calls f(plane, column, width, thread) for strips of the columns of every plane of `outer`. Each is one thread's own, so that
// what is written into it arrives in ascending order of positions.
template <class F>
void over_strips(const Geometry& n, int threads, int64_t widest, const F& f) {
  const bool whole_planes = n.outer >= threads;
  const auto plane = [&](int64_t o, int64_t begin, int64_t end, int thread) {
    for (int64_t column = begin; column < end; column += widest) {
      f(o, column, std::min(widest, end - column), thread);
    }
  };
  if (whole_planes) {
    parallel_chunks(threads, n.outer, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t o = begin; o < end; ++o) {
        plane(o, 0, n.inner, thread);
      }
    });
    return;
  }
  for (int64_t o = 0; o < n.outer; ++o) {
    parallel_chunks(threads, n.inner, kColumns,
                    [&](int64_t begin, int64_t end, int thread) { plane(o, begin, end, thread); });
  }
}

int threads_for_writes(const Geometry& n, int threads) {
  const int64_t strips = n.outer * ((n.inner + kColumns - 1) / kColumns);
  return useful_threads(threads, strips, n.outer * n.inner * (n.length + n.count));
}

template <class T>
constexpr bool is_narrow = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

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

// Adds updates [count, inner] of one plane at the rows (or elements) that `add(i, column, width, to)` finds. Sums of 16-bit
// floats are made in f32, strip by strip, and rounded once.
template <class T, class Add>
Kernel make_sums(const KernelRequest& request, const Geometry& n, const Add& add) {
  using Sum = std::conditional_t<is_narrow<T>, float, T>;
  const int threads = threads_for_writes(n, request.threads);
  const int64_t strip = is_narrow<T> ? n.length * kColumns : 0;
  return {[n, threads, strip, add, op = std::string_view(request.op.name),
           bytes = request.inputs[0].type.bytes()](const KernelMemory& memory) {
            const Ids ids(memory.inputs[1], n.ids);
            check_ids(op, ids, n.ids_count, n.length);
            const T* const updates = static_cast<const T*>(memory.inputs[2]);
            T* const y = static_cast<T*>(memory.outputs[0]);
            start_with(memory, bytes, threads);
            const int64_t widest = is_narrow<T> ? kColumns : std::max<int64_t>(n.inner, 1);
            over_strips(n, threads, widest,
                        [&](int64_t o, int64_t column, int64_t width, int thread) {
                          T* const plane = y + o * n.length * n.inner + column;
                          const T* const from = updates + o * n.count * n.inner + column;
                          if constexpr (is_narrow<T>) {
                            Sum* const sums = static_cast<Sum*>(memory.workspace) + thread * strip;
                            for (int64_t j = 0; j < n.length; ++j) {
                              std::copy_n(plane + j * n.inner, width, sums + j * kColumns);
                            }
                            add(n, ids, o, column, width, from, sums, kColumns);
                            for (int64_t j = 0; j < n.length; ++j) {
                              for (int64_t c = 0; c < width; ++c) {
                                plane[j * n.inner + c] = T(sums[j * kColumns + c]);
                              }
                            }
                          } else {
                            add(n, ids, o, column, width, from, plane, n.inner);
                          }
                        });
          },
          threads * strip * static_cast<int64_t>(sizeof(Sum))};
}

template <class Add>
Kernel prepare_sums(const KernelRequest& request, const Geometry& n, const Add& add) {
  return visit_dtype(request.inputs[0].type.dtype, [&]<class T>(T) -> Kernel {
    if constexpr (std::is_same_v<T, bool>) {
      fail("{}: no kernel for bool", request.op.name);
    } else {
      return make_sums<T>(request, n, add);
    }
  });
}

// Whole rows at the same ids in every plane.
Kernel prepare_scatter_add(const KernelRequest& request) {
  const auto add = []<class T, class Sum>(const Geometry& n, const Ids& ids, int64_t, int64_t,
                                          int64_t width, const T* from, Sum* to, int64_t ld) {
    for (int64_t i = 0; i < n.count; ++i) {
      if constexpr (std::is_same_v<T, Sum>) {
        add_row(width, from + i * n.inner, to + ids[i] * ld);
      } else {
        for (int64_t c = 0; c < width; ++c) {
          to[ids[i] * ld + c] += static_cast<Sum>(from[i * n.inner + c]);
        }
      }
    }
  };
  return prepare_sums(request, Geometry(request), add);
}

// Every element at an id of its own.
Kernel prepare_scatter_add_along(const KernelRequest& request) {
  const auto add = []<class T, class Sum>(const Geometry& n, const Ids& ids, int64_t o,
                                          int64_t column, int64_t width, const T* from, Sum* to,
                                          int64_t ld) {
    for (int64_t i = 0; i < n.count; ++i) {
      const int64_t first = (o * n.count + i) * n.inner + column;
      for (int64_t c = 0; c < width; ++c) {
        Sum& sum = to[ids[first + c] * ld + c];
        if constexpr (std::is_integral_v<T>) {
          sum = static_cast<Sum>(scalar::add<int64_t>(sum, from[i * n.inner + c]));
        } else {
          sum += static_cast<Sum>(from[i * n.inner + c]);
        }
      }
    }
  };
  return prepare_sums(request, Geometry::along(request), add);
}

Kernel prepare_scatter_set(const KernelRequest& request) {
  const Geometry n(request);
  const int threads = threads_for_writes(n, request.threads);
  const int64_t size = size_of(request.inputs[0].type.dtype);
  return {[n, threads, size, bytes = request.inputs[0].type.bytes()](const KernelMemory& memory) {
    const Ids ids(memory.inputs[1], n.ids);
    check_ids("scatter_set", ids, n.ids_count, n.length);
    const auto* const updates = static_cast<const std::byte*>(memory.inputs[2]);
    auto* const y = static_cast<std::byte*>(memory.outputs[0]);
    start_with(memory, bytes, threads);
    const int64_t row = n.inner * size;
    over_strips(n, threads, std::max<int64_t>(n.inner, 1),
                [&](int64_t o, int64_t column, int64_t width, int) {
                  for (int64_t i = 0; i < n.count; ++i) {
                    std::memcpy(y + (o * n.length + ids[i]) * row + column * size,
                                updates + (o * n.count + i) * row + column * size,
                                static_cast<size_t>(width * size));
                  }
                });
  }};
}

template <class T>
void take_elements(const Geometry& n, const Ids& ids, int64_t begin, int64_t end, const void* from,
                   void* to) {
  T* const y = static_cast<T*>(to);
  for (int64_t row = begin; row < end; ++row) {
    const T* const plane = static_cast<const T*>(from) + row / n.count * n.length * n.inner;
    for (int64_t c = 0; c < n.inner; ++c) {
      y[row * n.inner + c] = plane[ids[row * n.inner + c] * n.inner + c];
    }
  }
}

Kernel prepare_take_along(const KernelRequest& request) {
  const Geometry n = Geometry::along(request);
  const int size = size_of(request.inputs[0].type.dtype);
  const int64_t rows = n.outer * n.count;
  const int threads = useful_threads(request.threads, rows, rows * n.inner);
  return {[n, size, rows, threads](const KernelMemory& memory) {
    const Ids ids(memory.inputs[1], n.ids);
    check_ids("take_along", ids, n.ids_count, n.length);
    parallel_chunks(threads, rows, 1, [&](int64_t begin, int64_t end, int) {
      with_word(size, [&]<class T>(T) {
        take_elements<T>(n, ids, begin, end, memory.inputs[0], memory.outputs[0]);
      });
    });
  }};
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
  register_kernel(table(), "gather", {.prepare = prepare_gather});
  register_kernel(table(), "scatter_add", {.prepare = prepare_scatter_add, .in_place = {{0, 0}}});
  register_kernel(table(), "scatter_set", {.prepare = prepare_scatter_set, .in_place = {{0, 0}}});
  register_kernel(table(), "take_along", {.prepare = prepare_take_along});
  register_kernel(table(), "scatter_add_along",
                  {.prepare = prepare_scatter_add_along, .in_place = {{0, 0}}});
  register_kernel(table(), "one_hot", {.prepare = prepare_one_hot});
}

}  // namespace mstrain::cpu
