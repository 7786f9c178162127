// full and iota.
#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

template <class T>
void fill(int threads, int64_t n, T value, void* output) {
  T* y = static_cast<T*>(output);
  parallel_chunks(threads, n, 1024,
                  [&](int64_t begin, int64_t end, int) { std::fill(y + begin, y + end, value); });
}

// Integers wrap around.
template <class T>
T element(double value) {
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

Kernel prepare_full(const KernelRequest& request) {
  const int64_t n = request.outputs[0].type.elements();
  const double value = request.attrs.number("value");
  const int threads = useful_threads(request.threads, n / 1024 + 1, n);
  return visit_dtype(request.outputs[0].type.dtype, [&]<class T>(T) -> Kernel {
    return {[n, threads, x = element<T>(value)](const KernelMemory& memory) {
      fill(threads, n, x, memory.outputs[0]);
    }};
  });
}

Kernel prepare_iota(const KernelRequest& request) {
  const TensorType& type = request.outputs[0].type;
  const auto axis = static_cast<int>(request.attrs.integer("axis"));
  int64_t repeats = 1;
  for (int d = axis + 1; d < type.shape.rank(); ++d) {
    repeats *= type.shape[d];
  }
  const int64_t n = type.elements();
  const int64_t length = n == 0 ? 1 : type.shape[axis];
  return visit_dtype(type.dtype, [&]<class T>(T) -> Kernel {
    return {[n, length, repeats](const KernelMemory& memory) {
      T* y = static_cast<T*>(memory.outputs[0]);
      int64_t at = 0;
      for (int64_t i = 0; at < n; i = i + 1 == length ? 0 : i + 1) {
        std::fill_n(y + at, repeats, element<T>(static_cast<double>(i)));
        at += repeats;
      }
    }};
  });
}

}  // namespace

void register_source() {
  register_kernel(table(), "full", {.prepare = prepare_full});
  register_kernel(table(), "iota", {.prepare = prepare_iota});
}

}  // namespace mstrain::cpu
