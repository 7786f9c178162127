// Products in f32 with fewer columns than a register, as of the heads of small networks: each column is made where a has its numbers
// dense, of dot products of its rows, or of sums of its columns. Libraries pad or pack for them, and need longer to begin than these to end.
#include <algorithm>

#include "core/backends/cpu/after_product.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kMostColumns = 4;
constexpr int64_t kMostTerms = 1024;          // of a sum that is formed in one piece
constexpr int64_t kMostElements = 64 * 1024;  // of a, which then stays in the second cache

class NarrowProduct {
 public:
  explicit NarrowProduct(const Product& p) : p_(p), loops_(*loops().block), after_(p) {}

  // b's columns, [n, k], then those of c, [n, m].
  int64_t workspace_floats() const { return p_.n * (p_.k + p_.m); }

  void run(const float* a, const float* b, const float* bias, float* c, float* workspace) const {
    float* const b_columns = workspace;
    float* const c_columns = workspace + p_.n * p_.k;
    for (int64_t j = 0; j < p_.n; ++j) {
      for (int64_t l = 0; l < p_.k; ++l) {
        b_columns[j * p_.k + l] = b[l * p_.b_row + j * p_.b_column];
      }
    }
    if (p_.a_column == 1) {
      for (int64_t j = 0; j < p_.n; ++j) {
        loops_.dot_rows(p_.m, p_.k, a, p_.a_row, b_columns + j * p_.k, 0, c_columns + j * p_.m);
      }
    } else {
      loops_.product(p_.n, p_.m, p_.k, b_columns, p_.k, 1, a, p_.a_column, c_columns, p_.m, false);
    }
    for (int64_t i = 0; i < p_.m; ++i, c += p_.c_row) {
      for (int64_t j = 0; j < p_.n; ++j) {
        c[j] = c_columns[j * p_.m + i] + (after_.adds() ? c[j] : 0.0F) +
               (bias != nullptr ? bias[j] : 0.0F);
      }
      after_.run(c, p_.n);
    }
  }

 private:
  Product p_;
  const BlockLoops& loops_;
  AfterProduct after_;
};

}  // namespace

bool is_narrow(const Product& p) {
  const int64_t width = loops().block->width;
  return AfterProduct::serves(p) && p.batches() == 1 && p.n <= kMostColumns && p.m >= width &&
         p.k >= width && p.k <= kMostTerms && p.m * p.k <= kMostElements &&
         (p.a_column == 1 || (p.a_row == 1 && p.m % width == 0));
}

Kernel narrow_product(const Product& p) {
  const NarrowProduct product(p);
  return {[product, has_bias = p.bias](const KernelMemory& memory) {
            product.run(floats(memory.inputs[0]), floats(memory.inputs[1]),
                        has_bias ? floats(memory.inputs[2]) : nullptr,
                        static_cast<float*>(memory.outputs[0]),
                        static_cast<float*>(memory.workspace));
          },
          product.workspace_floats() * static_cast<int64_t>(sizeof(float))};
}

}  // namespace mstrain::cpu
