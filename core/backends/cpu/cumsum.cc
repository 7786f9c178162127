// argmax, argmin and cumulative sums, products, maxima and minima along one axis.
#include <algorithm>
#include <limits>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kColumns = 256;  // that are walked together where the axis is not the last one

// x[outer, length, inner]
struct Geometry {
  int64_t outer = 1, length = 1, inner = 1;
  int threads = 1;
  explicit Geometry(const KernelRequest& request) {
    const Shape& x = request.inputs[0].type.shape;
    const auto axis = static_cast<int>(request.attrs.integer("axis"));
    for (int d = 0; d < x.rank(); ++d) {
      int64_t& part = d < axis ? outer : d == axis ? length : inner;
      part *= x[d];
    }
    threads = useful_threads(request.threads, items(), x.elements());
  }
  int64_t strips() const { return (inner + kColumns - 1) / kColumns; }
  int64_t items() const { return outer * strips(); }
};

// Calls f(outer index, first column, columns) for every strip.
template <class F>
void for_strips(const Geometry& n, F&& f) {
  parallel_chunks(n.threads, n.items(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t column = item % n.strips() * kColumns;
      f(item / n.strips(), column, std::min(kColumns, n.inner - column));
    }
  });
}

template <class T>
using Comparable = std::conditional_t<std::is_integral_v<T>, int64_t,
                                      std::conditional_t<std::is_same_v<T, double>, double, float>>;

// Whether `candidate` replaces `leader`: the first one wins among equals, NaN wins over numbers.
template <class V>
bool beats(V candidate, V leader, bool greatest) {
  if (leader != leader) {
    return false;
  }
  return candidate != candidate || (greatest ? candidate > leader : candidate < leader);
}

template <class T>
Kernel make_arg(const KernelRequest& request, bool greatest) {
  const Geometry n(request);
  return {[n, greatest](const KernelMemory& memory) {
    const T* x = static_cast<const T*>(memory.inputs[0]);
    int32_t* y = static_cast<int32_t*>(memory.outputs[0]);
    using V = Comparable<T>;
    for_strips(n, [&](int64_t o, int64_t column, int64_t count) {
      const T* plane = x + o * n.length * n.inner + column;
      int32_t* to = y + o * n.inner + column;
      if constexpr (std::is_floating_point_v<T>) {
        if (n.inner == 1) {
          const RowLoops<T>& loop = loops().rows<T>();
          *to = static_cast<int32_t>((greatest ? loop.argmax : loop.argmin)(n.length, plane));
          return;
        }
      }
      V leaders[kColumns];
      for (int64_t j = 0; j < count; ++j) {
        leaders[j] = static_cast<V>(plane[j]);
        to[j] = 0;
      }
      for (int64_t i = 1; i < n.length; ++i) {
        for (int64_t j = 0; j < count; ++j) {
          const V value = static_cast<V>(plane[i * n.inner + j]);
          if (beats(value, leaders[j], greatest)) {
            leaders[j] = value;
            to[j] = static_cast<int32_t>(i);
          }
        }
      }
    });
  }};
}

template <bool greatest>
Kernel prepare_arg(const KernelRequest& request) {
  return visit_dtype(request.inputs[0].type.dtype,
                     [&]<class T>(T) -> Kernel { return make_arg<T>(request, greatest); });
}

// Running sums or products in double, or in int64 that wraps around.
template <class T, bool product>
Kernel make_total(const KernelRequest& request) {
  const Geometry n(request);
  return {[n, reverse = request.attrs.flag("reverse")](const KernelMemory& memory) {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    const T* x = static_cast<const T*>(memory.inputs[0]);
    T* y = static_cast<T*>(memory.outputs[0]);
    for_strips(n, [&](int64_t o, int64_t column, int64_t count) {
      Sum sums[kColumns];
      std::fill(sums, sums + count, Sum(product ? 1 : 0));
      for (int64_t step = 0; step < n.length; ++step) {
        const int64_t i = reverse ? n.length - 1 - step : step;
        const int64_t at = (o * n.length + i) * n.inner + column;
        for (int64_t j = 0; j < count; ++j) {
          if constexpr (product) {
            sums[j] *= static_cast<Sum>(x[at + j]);
          } else {
            sums[j] += static_cast<Sum>(x[at + j]);
          }
          if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
            y[at + j] = T(static_cast<float>(sums[j]));
          } else {
            y[at + j] = static_cast<T>(sums[j]);
          }
        }
      }
    });
  }};
}

template <bool product>
Kernel prepare_total(const KernelRequest& request) {
  return visit_dtype(request.inputs[0].type.dtype,
                     [&]<class T>(T) -> Kernel { return make_total<T, product>(request); });
}

// The leader so far and where it stands.
template <class T, bool greatest>
Kernel make_leaders(const KernelRequest& request) {
  const Geometry n(request);
  return {[n, reverse = request.attrs.flag("reverse")](const KernelMemory& memory) {
    using V = Comparable<T>;
    const T* x = static_cast<const T*>(memory.inputs[0]);
    T* y = static_cast<T*>(memory.outputs[0]);
    int32_t* places = static_cast<int32_t*>(memory.outputs[1]);
    for_strips(n, [&](int64_t o, int64_t column, int64_t count) {
      const int64_t first = (o * n.length + (reverse ? n.length - 1 : 0)) * n.inner + column;
      for (int64_t step = 0; step < n.length; ++step) {
        const int64_t i = reverse ? n.length - 1 - step : step;
        const int64_t at = (o * n.length + i) * n.inner + column;
        const int64_t before = reverse ? at + n.inner : at - n.inner;
        for (int64_t j = 0; j < count; ++j) {
          const bool leads = at == first || beats(static_cast<V>(x[at + j]),
                                                  static_cast<V>(y[before + j]), greatest);
          y[at + j] = leads ? x[at + j] : y[before + j];
          places[at + j] = leads ? static_cast<int32_t>(i) : places[before + j];
        }
      }
    });
  }};
}

template <bool greatest>
Kernel prepare_leaders(const KernelRequest& request) {
  return visit_dtype(request.inputs[0].type.dtype,
                     [&]<class T>(T) -> Kernel { return make_leaders<T, greatest>(request); });
}

}  // namespace

void register_scan() {
  register_kernel(table(), "argmax", {.prepare = prepare_arg<true>});
  register_kernel(table(), "argmin", {.prepare = prepare_arg<false>});
  register_kernel(table(), "cumsum", {.prepare = prepare_total<false>, .in_place = {{0, 0}}});
  register_kernel(table(), "cumprod", {.prepare = prepare_total<true>, .in_place = {{0, 0}}});
  register_kernel(table(), "cummax", {.prepare = prepare_leaders<true>});
  register_kernel(table(), "cummin", {.prepare = prepare_leaders<false>});
}

}  // namespace mstrain::cpu
