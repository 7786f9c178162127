// QR. What is not finite gives NaN. In double for f32 as well: one instance of Eigen's code, which takes long to compile.
#include <Eigen/QR>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/matrices.h"

namespace mstrain::cpu {
namespace {

Kernel prepare_qr(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[b = MatrixBatch(request, 4)](const KernelMemory& memory) {
      parallel_items(b.threads, b.empty() ? 0 : b.count, [&](int64_t i, int) {
        MatrixOut<T> q = matrix_out<T>(memory.outputs[0], i, b.m, b.n);
        MatrixOut<T> r = matrix_out<T>(memory.outputs[1], i, b.n, b.n);
        const Eigen::HouseholderQR<Eigen::MatrixXd> qr(
            matrix_in<T>(memory.inputs[0], i, b.m, b.n).template cast<double>());
        const Eigen::MatrixXd columns = qr.householderQ() * Eigen::MatrixXd::Identity(b.m, b.n);
        const Eigen::MatrixXd upper = qr.matrixQR().topRows(b.n).triangularView<Eigen::Upper>();
        q = columns.cast<T>();
        r = upper.cast<T>();
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

}  // namespace

void register_qr() {
  register_kernel(table(), "qr", {.prepare = prepare_qr, .supports = is_f64_or_f32});
}

}  // namespace mstrain::cpu
