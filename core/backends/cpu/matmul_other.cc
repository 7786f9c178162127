// Products of the types that oneDNN has not: f64 through Eigen, integers by loops over int64 that wrap around.
#include <Eigen/Core>

#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;
template <class Matrix>
using View = Eigen::Map<const Matrix, 0, Stride>;
using ColumnMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

template <class A, class B>
void multiply(const Product& p, int64_t a_step, const double* a, int64_t b_step, const double* b,
              double* c) {
  Eigen::Map<RowMajor, 0, Stride>(c, p.m, p.n, Stride(p.c_row)).noalias() =
      View<A>(a, p.m, p.k, Stride(a_step)) * View<B>(b, p.k, p.n, Stride(b_step));
}

void multiply(const Product& p, const double* a, const double* b, double* c) {
  if (p.a_column == 1) {
    if (p.b_column == 1) {
      multiply<RowMajor, RowMajor>(p, p.a_row, a, p.b_row, b, c);
    } else {
      multiply<RowMajor, ColumnMajor>(p, p.a_row, a, p.b_column, b, c);
    }
  } else if (p.b_column == 1) {
    multiply<ColumnMajor, RowMajor>(p, p.a_column, a, p.b_row, b, c);
  } else {
    multiply<ColumnMajor, ColumnMajor>(p, p.a_column, a, p.b_column, b, c);
  }
}

template <class T>
void multiply_integers(const Product& p, int64_t begin, int64_t end, const T* a, const T* b, T* c) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t batch = row / p.m;
    const int64_t i = row % p.m;
    const T* left = a + p.offset(0, batch) + i * p.a_row;
    const T* right = b + p.offset(1, batch);
    T* out = c + p.offset(2, batch) + i * p.c_row;
    for (int64_t j = 0; j < p.n; ++j) {
      uint64_t sum = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        sum += static_cast<uint64_t>(left[l * p.a_column]) *
               static_cast<uint64_t>(right[l * p.b_row + j * p.b_column]);
      }
      out[j] = static_cast<T>(sum);
    }
  }
}

}  // namespace

Kernel eigen_product(const Product& p, int threads) {
  const double work =
      static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  // Many small products: one thread each. A large one: Eigen's own threads.
  const bool spread = p.batches() >= threads && work < 1e7;
  return {[p, threads, spread, work](const KernelMemory& memory) {
    const double* a = static_cast<const double*>(memory.inputs[0]);
    const double* b = static_cast<const double*>(memory.inputs[1]);
    double* c = static_cast<double*>(memory.outputs[0]);
    Eigen::setNbThreads(spread ? 1 : threads);
    const int team =
        spread ? useful_threads(threads, p.batches(), static_cast<int64_t>(work) * p.batches()) : 1;
    parallel_chunks(team, p.batches(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        multiply(p, a + p.offset(0, i), b + p.offset(1, i), c + p.offset(2, i));
      }
    });
  }};
}

Kernel integer_product(const Product& p, int threads) {
  return visit_dtype(p.dtype, [&]<class T>(T) -> Kernel {
    if constexpr (std::is_integral_v<T>) {
      const int64_t rows = p.batches() * p.m;
      const int team = useful_threads(threads, rows, rows * p.n * p.k);
      return {[p, rows, team](const KernelMemory& memory) {
        parallel_chunks(team, rows, 1, [&](int64_t begin, int64_t end, int) {
          multiply_integers(p, begin, end, static_cast<const T*>(memory.inputs[0]),
                            static_cast<const T*>(memory.inputs[1]),
                            static_cast<T*>(memory.outputs[0]));
        });
      }};
    } else {
      fail("no integer product of {}", name_of(p.dtype));
    }
  });
}

}  // namespace mstrain::cpu
