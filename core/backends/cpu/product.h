// A product as loops and libraries see it: matrices, perhaps many of them.
#pragma once

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/nest.h"
#include "core/ops/dot_general.h"

namespace mstrain::cpu {

// The least multiple of `multiple` from n on.
constexpr int64_t up_to(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
inline const float* floats(const void* address) { return static_cast<const float*>(address); }

// c[batch…, m, n] = a[batch…, m, k] b[batch…, k, n] (+ bias[n]), then what is `after` it; strides in elements, columns of c
// are dense.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  Nest batch;  // operands 0 a, 1 b, 2 c
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  Dtype dtype = Dtype::kF32;   // of a and b
  Dtype result = Dtype::kF32;  // of c and the bias
  bool bias = false;
  std::vector<Epilogue> after = {};  // kScale, kActivation, and kAdd of what lies in c
  bool batch_invariant = false;      // f32: see Context

  int64_t batches() const { return batch.elements(); }
  int64_t offset(int operand, int64_t index) const {
    return batch.row_offset(operand, index / batch.inner()) +
           index % batch.inner() * batch.inner_stride(operand);
  }
};

// Gives dims of size 1, which may have any step, one that fits the other dim of their matrix: libraries want that.
void fit_strides(Product& product);

// How the tensors of a dot_general become a product.
struct ProductLayout {
  Product product;
  bool swapped = false;  // the product's a is the second operand, its b the first
  // By operand: the dims (letters) of a dense copy to be read in its place; none where it is read as it lies.
  std::array<std::optional<std::string>, 2> copied;
  // Letters of c from the slowest to the fastest; none where the result's own order serves.
  std::optional<std::string> result;
  // The dims that n runs over, where n is all columns of the result.
  std::optional<std::string> columns;
};

// `converted`: operands whose elements are made anew in any case. No dim that matters has size 0.
ProductLayout layout_of(const DotDims& dims, const ViewType& a, const ViewType& b, const Shape& out,
                        std::array<bool, 2> converted);

// Kernels over (a, b[, bias]); only oneDNN's have a bias and what comes after. onednn_product gives no run function where
// oneDNN has no fast path, and wants b packed where it is kept and the library has a layout for it.
Kernel onednn_product(const Product& product, int threads, bool b_is_kept);  // f32, bf16
// By our own loops; packs b itself, or wants it packed where it is kept. No run function for what it does not serve: types but
// f32, and an addend that comes before or after something else.
Kernel packed_product(const Product& product, int threads, bool b_is_kept);
// How many terms it adds up before it adds them to those before, and so on; the last part may have fewer.
int64_t packed_depth(int64_t k);
// By our own loops, on one thread, of one product that is small; serves what packed_product does.
Kernel small_product(const Product& product);
// By our own loops, on one thread, of few columns and a small a; serves what packed_product does.
bool is_narrow(const Product& product);
Kernel narrow_product(const Product& product);
// By our own loops, for products that are limited by the reading of b; makes neither bias nor what is after it: then no run
// function.
bool is_few_rows(const Product& product);
Kernel few_rows_product(const Product& product, int threads);
// By our own loops, with numbers that do not depend on m: sums in the order of packed_product. No run function for what that does not
// serve, nor for bias and what is after it where rows are few.
Kernel batch_invariant_product(const Product& product, int threads, bool b_is_kept);
Kernel eigen_product(const Product& product, int threads);  // f64
Kernel integer_product(const Product& product, int threads);

}  // namespace mstrain::cpu
