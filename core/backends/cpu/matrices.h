// What kernels on batches of small matrices, through Eigen, share: f64 and f32, every matrix on one thread.
#pragma once

#include <Eigen/Core>
#include <atomic>
#include <limits>

#include "core/backends/cpu/parallel.h"
#include "core/ir/kernel.h"

namespace mstrain::cpu {

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixIn = Eigen::Map<const RowMatrix<T>>;
template <class T>
using MatrixOut = Eigen::Map<RowMatrix<T>>;
template <class T>
using VectorOut = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

// The matrices [m, n] of the first input, and those of [n, k] of a second one.
struct MatrixBatch {
  int64_t count = 1, m = 0, n = 0, k = 0;
  int threads = 1;

  // `work` for each element and each of the smaller dim.
  MatrixBatch(const KernelRequest& request, int64_t work) {
    const Shape& a = request.inputs[0].type.shape;
    m = a[a.rank() - 2];
    n = a.back();
    for (int i = 0; i < a.rank() - 2; ++i) {
      count *= a[i];
    }
    k = request.inputs.size() > 1 ? request.inputs[1].type.shape.back() : 0;
    threads = useful_threads(request.threads, count, work * count * m * (n + k) * smaller());
  }
  int64_t smaller() const { return std::min(m, n); }
  bool empty() const { return count * m * n == 0; }
};

inline bool is_f64_or_f32(const KernelRequest& request) {
  const Dtype dtype = request.inputs[0].type.dtype;
  return dtype == Dtype::kF64 || dtype == Dtype::kF32;
}

// f(T{}) for the type of such a request.
template <class F>
Kernel for_f64_or_f32(const KernelRequest& request, const F& f) {
  return request.inputs[0].type.dtype == Dtype::kF64 ? f(double{}) : f(float{});
}

// Matrix i of a batch that begins at `memory`.
template <class T>
MatrixIn<T> matrix_in(const void* memory, int64_t i, int64_t m, int64_t n) {
  return {static_cast<const T*>(memory) + i * m * n, m, n};
}
template <class T>
MatrixOut<T> matrix_out(void* memory, int64_t i, int64_t m, int64_t n) {
  return {static_cast<T*>(memory) + i * m * n, m, n};
}
template <class T>
VectorOut<T> vector_out(void* memory, int64_t i, int64_t n) {
  return {static_cast<T*>(memory) + i * n, n};
}

// The first matrix that could not be treated, from any thread.
class FirstFailure {
 public:
  void note(int64_t item) {
    int64_t seen = item_.load(std::memory_order_relaxed);
    while (item < seen && !item_.compare_exchange_weak(seen, item, std::memory_order_relaxed)) {
    }
  }
  // Throws where there is one: "cholesky: matrix 3 of the batch is not positive definite".
  void raise(std::string_view op, std::string_view what) const {
    const int64_t item = item_.load(std::memory_order_relaxed);
    check(item == kNone, "{}: matrix {} of the batch {}", op, item, what);
  }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> item_{kNone};
};

}  // namespace mstrain::cpu
