// Eigenvalues of symmetric matrices. What is not finite gives NaN. Found in double for f32 as well.
#include <Eigen/Eigenvalues>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/matrices.h"
#include "core/ops/linalg_common.h"

namespace mstrain::cpu {
namespace {

Kernel prepare_eigh(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[b = MatrixBatch(request, 10)](const KernelMemory& memory) {
      constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
      parallel_items(b.threads, b.empty() ? 0 : b.count, [&](int64_t i, int) {
        VectorOut<T> values = vector_out<T>(memory.outputs[0], i, b.n);
        MatrixOut<T> vectors = matrix_out<T>(memory.outputs[1], i, b.n, b.n);
        const MatrixIn<T> a = matrix_in<T>(memory.inputs[0], i, b.n, b.n);
        if (!a.allFinite()) {
          values.setConstant(kNan);
          vectors.setConstant(kNan);
          return;
        }
        const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(a.template cast<double>());
        values = eigen.eigenvalues().template cast<T>();
        vectors = eigen.eigenvectors().template cast<T>();
        for (int64_t j = 0; j < b.n; ++j) {
          if (points_backwards(b.n, [&](int64_t row) { return vectors(row, j); })) {
            vectors.col(j) = -vectors.col(j);
          }
        }
      });
    }};
  });
}

}  // namespace

void register_eigh() {
  register_kernel(table(), "eigh", {.prepare = prepare_eigh, .supports = is_f64_or_f32});
}

}  // namespace mstrain::cpu
