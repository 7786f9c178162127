// What follows a product that our own loops make in f32: sums begin with what lies in c, where it is added to; factors and activations come
// when they are whole.
#pragma once

#include <string_view>
#include <vector>

#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {

class AfterProduct {
 public:
  static bool serves(const Product& p);
  explicit AfterProduct(const Product& p);

  bool adds() const { return adds_; }
  // A row of c, or n columns of it.
  void run(float* row, int64_t n) const {
    if (!steps_.empty()) {
      take_steps(row, n);
    }
  }

 private:
  void take_steps(float* row, int64_t n) const;
  // An activation, or a factor.
  struct Step {
    TileLoop activation = nullptr;
    float factor = 1;
  };
  bool adds_ = false;
  std::vector<Step> steps_;
};

}  // namespace mstrain::cpu
