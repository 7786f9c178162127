// QR, singular values and eigenvalues of symmetric matrices. What is not finite gives NaN. Values are found in double for
// f32 as well.
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/matrices.h"
#include "core/ops/linalg_common.h"

namespace mstrain::cpu {
namespace {

Kernel prepare_qr(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[b = MatrixBatch(request, 4)](const KernelMemory& memory) {
      parallel_items(b.threads, b.empty() ? 0 : b.count, [&](int64_t i, int) {
        MatrixOut<T> q = matrix_out<T>(memory.outputs[0], i, b.m, b.n);
        MatrixOut<T> r = matrix_out<T>(memory.outputs[1], i, b.n, b.n);
        const Eigen::HouseholderQR<RowMatrix<T>> qr(matrix_in<T>(memory.inputs[0], i, b.m, b.n));
        q = qr.householderQ() * RowMatrix<T>::Identity(b.m, b.n);
        r = qr.matrixQR().topRows(b.n).template triangularView<Eigen::Upper>();
        for (int64_t j = 0; j < b.n; ++j) {
          if (r(j, j) < T(0)) {
            r.row(j) = -r.row(j);
            q.col(j) = -q.col(j);
          }
        }
      });
    }};
  });
}

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

void register_decompositions() {
  const auto add = [](std::string_view op, Kernel (*prepare)(const KernelRequest&)) {
    register_kernel(Backend::kCpu, op, {.prepare = prepare, .supports = is_f64_or_f32});
  };
  add("qr", prepare_qr);
  add("svd", prepare_svd);
  add("eigh", prepare_eigh);
}

}  // namespace mstrain::cpu
