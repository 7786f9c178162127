// Products of a few rows with a large matrix whose columns are dense, as in generation: each number of b is read once, as it
// lies, at the rate of memory. Libraries pack b, or step through it in an order that suits many rows.
#include <algorithm>

#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

constexpr int64_t kMostRows = 8;
constexpr int64_t kLeastColumns = 16;
constexpr int64_t kLeastElements = 16 * 1024;  // of b

}  // namespace

bool is_few_rows(const Product& p) {
  return p.dtype == Dtype::kF32 && p.result == Dtype::kF32 && p.batches() == 1 &&
         p.m <= kMostRows && p.n >= kLeastColumns && p.n * p.k >= kLeastElements &&
         p.a_column == 1 && p.b_row == 1 && p.b_column >= p.k;
}

Kernel few_rows_product(const Product& p, int threads) {
  if (p.bias || !p.after.empty()) {
    return {};
  }
  const int team = useful_threads(threads, p.n, p.m * p.n * p.k);
  constexpr int64_t kFloat = sizeof(float);
  return {[=](const KernelMemory& memory) {
    const auto* const b = static_cast<const uint8_t*>(memory.inputs[1]);
    auto* const c = static_cast<float*>(memory.outputs[0]);
    parallel_chunks(team, p.n, 1, [&](int64_t begin, int64_t end, int) {
      loops().coded->product_of_floats(
          p.m, {b + begin * p.b_column * kFloat, end - begin, p.b_column * kFloat, p.k},
          memory.inputs[0], p.a_row * kFloat, c + begin, p.c_row);
    });
  }};
}

}  // namespace mstrain::cpu
