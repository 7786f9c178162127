// A matrix product as loops and libraries see it.
#pragma once

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/nest.h"

namespace mstrain::cpu {

// c[batch…, m, n] = activation(a[batch…, m, k] b[batch…, k, n] (+ bias[n]) (+ c)); strides in elements, c dense.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Nest batch;  // operands 0 a, 1 b, 2 c
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  bool bias = false;
  bool accumulate = false;
  std::string_view activation = {};  // of kProductActivations; none where empty

  int64_t batches() const { return batch.elements(); }
  int64_t offset(int operand, int64_t index) const {
    return batch.row_offset(operand, index / batch.inner()) +
           index % batch.inner() * batch.inner_stride(operand);
  }
};

// From views of a and b; a batch that shares b becomes further rows where strides allow it.
Product make_product(const ViewType& a, bool transpose_a, const ViewType& b, bool transpose_b,
                     const Shape& out);

// Kernels over (a, b[, bias]) of one type; only oneDNN's accumulate and activate. onednn_product gives no run function
// where oneDNN has no fast path, and wants b packed where it is kept and the library has a layout for it.
Kernel onednn_product(const Product& product, Dtype dtype, int threads, bool b_is_kept);
Kernel eigen_product(const Product& product, int threads);  // f64
Kernel integer_product(const Product& product, Dtype dtype, int threads);

}  // namespace mstrain::cpu
