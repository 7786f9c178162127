// Places of numbers in sorted rows.
#include <algorithm>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {
namespace {

// Ascending, NaN last.
template <class T>
bool before(T a, T b) {
  return a < b || (b != b && a == a);
}

template <class T>
Kernel make_searchsorted(const KernelRequest& request) {
  const int64_t n = request.inputs[0].type.shape.back();
  const int64_t m = request.inputs[1].type.shape.back();
  const int64_t count = request.outputs[0].type.elements();
  const int threads = useful_threads(request.threads, count, 16 * count);
  return {[n, m, count, threads,
           after = request.attrs.flag("after_equals")](const KernelMemory& memory) {
    const T* sorted = static_cast<const T*>(memory.inputs[0]);
    const T* values = static_cast<const T*>(memory.inputs[1]);
    int32_t* places = static_cast<int32_t*>(memory.outputs[0]);
    parallel_chunks(threads, count, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const T* row = sorted + i / m * n;
        const T* place = after ? std::upper_bound(row, row + n, values[i], before<T>)
                               : std::lower_bound(row, row + n, values[i], before<T>);
        places[i] = static_cast<int32_t>(place - row);
      }
    });
  }};
}

Kernel prepare(const KernelRequest& request) {
  return visit_dtype(request.inputs[0].type.dtype,
                     [&]<class T>(T) -> Kernel { return make_searchsorted<T>(request); });
}

}  // namespace

void register_search() { register_kernel(table(), "searchsorted", {.prepare = prepare}); }

}  // namespace mstrain::cpu
