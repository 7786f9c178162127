// Products in f32 that are so small that packing b would cost more than multiplying by it: b is read where it lies, but for what has its
// columns apart or fills no register. An element's sum runs in the order of matmul_packed.cc.
#include <algorithm>

#include "core/backends/cpu/after_product.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

class SmallProduct {
 public:
  explicit SmallProduct(const Product& p)
      : p_(p),
        loops_(*loops().block),
        after_(p),
        whole_(p.n / loops_.width * loops_.width),
        copied_from_(p.b_column == 1 ? whole_ : 0),
        copied_((p.n - copied_from_ + loops_.width - 1) / loops_.width * loops_.width) {}

  // Columns of b, [k, copied_], then the last columns of c, [m, width].
  int64_t workspace_floats() const {
    return p_.k * copied_ + (whole_ < p_.n ? p_.m * loops_.width : 0);
  }

  void run(const float* a, const float* b, const float* bias, float* c, float* workspace) const {
    copy_columns(b, workspace);
    begin(bias, c);
    const bool adds = after_.adds() || bias != nullptr;
    if (whole_ > 0) {
      const bool in_place = copied_from_ > 0;
      multiply(whole_, a, in_place ? b : workspace, in_place ? p_.b_row : copied_, c, p_.c_row,
               adds);
    }
    if (whole_ < p_.n) {
      // The loops write whole registers.
      float* const edge = workspace + p_.k * copied_;
      const int64_t width = p_.n - whole_;
      for (int64_t i = 0; adds && i < p_.m; ++i) {
        std::copy_n(c + i * p_.c_row + whole_, width, edge + i * loops_.width);
      }
      multiply(loops_.width, a, workspace + whole_ - copied_from_, copied_, edge, loops_.width,
               adds);
      for (int64_t i = 0; i < p_.m; ++i) {
        std::copy_n(edge + i * loops_.width, width, c + i * p_.c_row + whole_);
      }
    }
    for (int64_t i = 0; i < p_.m; ++i) {
      after_.run(c + i * p_.c_row, p_.n);
    }
  }

 private:
  // Columns from copied_from_ on, zeros beyond n.
  void copy_columns(const float* b, float* to) const {
    const int64_t width = p_.n - copied_from_;
    if (p_.b_column != 1) {
      loops_.transpose(width, p_.k, b, p_.b_column, to, copied_);
    }
    for (int64_t l = 0; l < p_.k && copied_ > 0; ++l, to += copied_) {
      if (p_.b_column == 1) {
        std::copy_n(b + l * p_.b_row + copied_from_, width, to);
      }
      std::fill(to + width, to + copied_, 0.0F);
    }
  }

  // What sums begin with.
  void begin(const float* bias, float* c) const {
    for (int64_t i = 0; bias != nullptr && i < p_.m; ++i, c += p_.c_row) {
      if (after_.adds()) {
        loops().f32->add_to(p_.n, bias, c);
      } else {
        std::copy_n(bias, p_.n, c);
      }
    }
  }

  void multiply(int64_t n, const float* a, const float* b, int64_t b_row, float* c, int64_t c_row,
                bool adds) const {
    loops_.product(p_.m, n, p_.k, a, p_.a_row, p_.a_column, b, b_row, c, c_row, adds);
  }

  Product p_;
  const BlockLoops& loops_;
  AfterProduct after_;
  int64_t whole_;        // columns that fill registers
  int64_t copied_from_;  // columns before it are read where they lie
  int64_t copied_;       // floats of a row of those that are not
};

}  // namespace

Kernel small_product(const Product& p) {
  if (!AfterProduct::serves(p)) {
    return {};
  }
  const SmallProduct product(p);
  return {[product, a_from = p.offset(0, 0), b_from = p.offset(1, 0), c_from = p.offset(2, 0),
           has_bias = p.bias](const KernelMemory& memory) {
            product.run(static_cast<const float*>(memory.inputs[0]) + a_from,
                        static_cast<const float*>(memory.inputs[1]) + b_from,
                        has_bias ? static_cast<const float*>(memory.inputs[2]) : nullptr,
                        static_cast<float*>(memory.outputs[0]) + c_from,
                        static_cast<float*>(memory.workspace));
          },
          product.workspace_floats() * static_cast<int64_t>(sizeof(float))};
}

}  // namespace mstrain::cpu
