// Singular values. What is not finite gives NaN. Found in double for f32 as well.
#include <Eigen/SVD>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/matrices.h"
#include "core/ops/linalg_common.h"

namespace mstrain::cpu {
namespace {

Kernel prepare_svd(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[b = MatrixBatch(request, 10)](const KernelMemory& memory) {
      constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
      const int64_t k = b.smaller();
      parallel_items(b.threads, b.empty() ? 0 : b.count, [&](int64_t i, int) {
        const MatrixIn<T> a = matrix_in<T>(memory.inputs[0], i, b.m, b.n);
        MatrixOut<T> u = matrix_out<T>(memory.outputs[0], i, b.m, k);
        VectorOut<T> s = vector_out<T>(memory.outputs[1], i, k);
        MatrixOut<T> vt = matrix_out<T>(memory.outputs[2], i, k, b.n);
        if (!a.allFinite()) {
          u.setConstant(kNan);
          s.setConstant(kNan);
          vt.setConstant(kNan);
          return;
        }
        const Eigen::BDCSVD<Eigen::MatrixXd> svd(a.template cast<double>(),
                                                 Eigen::ComputeThinU | Eigen::ComputeThinV);
        u = svd.matrixU().template cast<T>();
        s = svd.singularValues().template cast<T>();
        vt = svd.matrixV().transpose().template cast<T>();
        for (int64_t j = 0; j < k; ++j) {
          if (points_backwards(b.m, [&](int64_t row) { return u(row, j); })) {
            u.col(j) = -u.col(j);
            vt.row(j) = -vt.row(j);
          }
        }
      });
    }};
  });
}

}  // namespace

void register_svd() {
  register_kernel(table(), "svd", {.prepare = prepare_svd, .supports = is_f64_or_f32});
}

}  // namespace mstrain::cpu
