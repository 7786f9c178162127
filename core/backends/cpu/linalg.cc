// Cholesky's decomposition, systems of equations and determinants.
#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/matrices.h"
#include "core/ops/linalg_common.h"

namespace mstrain::cpu {
namespace {

Kernel prepare_cholesky(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[s = MatrixBatch(request, 1)](const KernelMemory& memory) {
      FirstFailure failure;
      parallel_items(s.threads, s.empty() ? 0 : s.count, [&](int64_t i, int) {
        const Eigen::LLT<RowMatrix<T>> llt(matrix_in<T>(memory.inputs[0], i, s.n, s.n));
        // What is no number passes Eigen's own test of the pivots.
        if (llt.info() != Eigen::Success || !(llt.matrixLLT().diagonal().array() > T(0)).all()) {
          failure.note(i);
        } else {
          matrix_out<T>(memory.outputs[0], i, s.n, s.n) = llt.matrixL();
        }
      });
      failure.raise("cholesky", "is not positive definite");
    }};
  });
}

Kernel prepare_solve(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    const auto [function, what] = singular_error("solve", request.attrs);
    return {[s = MatrixBatch(request, 1), function = std::string(function),
             what = what](const KernelMemory& memory) {
      FirstFailure failure;
      parallel_items(s.threads, s.empty() ? 0 : s.count, [&](int64_t i, int) {
        const Eigen::PartialPivLU<RowMatrix<T>> lu(matrix_in<T>(memory.inputs[0], i, s.n, s.n));
        if ((lu.matrixLU().diagonal().array() == T(0)).any()) {
          failure.note(i);
        } else if (s.k > 0) {
          matrix_out<T>(memory.outputs[0], i, s.n, s.k) =
              lu.solve(matrix_in<T>(memory.inputs[1], i, s.n, s.k));
        }
      });
      failure.raise(function, what);
    }};
  });
}

template <class T, unsigned mode>
void solve_triangle(const MatrixIn<T>& a, bool transposed, MatrixOut<T> x) {
  constexpr unsigned kOther = mode == Eigen::Lower ? Eigen::Upper : Eigen::Lower;
  if (transposed) {
    a.transpose().template triangularView<kOther>().solveInPlace(x);
  } else {
    a.template triangularView<mode>().solveInPlace(x);
  }
}

Kernel prepare_triangular(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[s = MatrixBatch(request, 1), lower = request.attrs.flag("lower"),
             transposed = request.attrs.flag("transpose")](const KernelMemory& memory) {
      FirstFailure failure;
      parallel_items(s.threads, s.empty() ? 0 : s.count, [&](int64_t i, int) {
        const MatrixIn<T> a = matrix_in<T>(memory.inputs[0], i, s.n, s.n);
        if ((a.diagonal().array() == T(0)).any()) {
          failure.note(i);
        } else if (s.k > 0) {
          MatrixOut<T> x = matrix_out<T>(memory.outputs[0], i, s.n, s.k);
          x = matrix_in<T>(memory.inputs[1], i, s.n, s.k);
          if (lower) {
            solve_triangle<T, Eigen::Lower>(a, transposed, x);
          } else {
            solve_triangle<T, Eigen::Upper>(a, transposed, x);
          }
        }
      });
      failure.raise("triangular_solve", "is singular");
    }};
  });
}

Kernel prepare_slogdet(const KernelRequest& request) {
  return for_f64_or_f32(request, [&]<class T>(T) -> Kernel {
    return {[s = MatrixBatch(request, 1)](const KernelMemory& memory) {
      parallel_items(s.threads, s.count, [&](int64_t i, int) {
        double sign = 1;
        double logarithm = 0;
        if (s.n > 0) {
          const Eigen::PartialPivLU<RowMatrix<T>> lu(matrix_in<T>(memory.inputs[0], i, s.n, s.n));
          sign = static_cast<double>(lu.permutationP().determinant());
          for (int64_t j = 0; j < s.n; ++j) {
            const auto pivot = static_cast<double>(lu.matrixLU()(j, j));
            sign *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // 0, or NaN
            logarithm += std::log(std::abs(pivot));
          }
        }
        static_cast<T*>(memory.outputs[0])[i] = static_cast<T>(sign);
        static_cast<T*>(memory.outputs[1])[i] = static_cast<T>(logarithm);
      });
    }};
  });
}

}  // namespace

void register_linalg() {
  const auto add = [](std::string_view op, Kernel (*prepare)(const KernelRequest&)) {
    register_kernel(table(), op, {.prepare = prepare, .supports = is_f64_or_f32});
  };
  add("cholesky", prepare_cholesky);
  add("solve", prepare_solve);
  add("triangular_solve", prepare_triangular);
  add("slogdet", prepare_slogdet);
}

}  // namespace mstrain::cpu
