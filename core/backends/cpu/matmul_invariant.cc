// Products in f32 that give a row the same bits whatever rows are beside it: every number is one sum in the order of
// packed_product(). Where rows are few, as in generation, packing b would cost more than multiplying by it; it is read where it lies.
#include <algorithm>

#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/product.h"

namespace mstrain::cpu {
namespace {

// Rows that do without packing b, where its rows are dense; where its columns are, since what is made transposed stays in the second cache.
constexpr int64_t kMostRows = 48, kMostTurned = 256;
constexpr int64_t kColumnsAtOnce = 96;  // of what is made transposed; whole blocks of the loops

// Calls f(first, count) for the parts that a sum is added up in.
template <class F>
void for_each_part(int64_t k, const F& f) {
  const int64_t depth = packed_depth(k);
  for (int64_t l = 0; l < k; l += depth) {
    f(l, std::min(depth, k - l));
  }
}

// b has its columns dense: c' = b' a', with a' in registers' width.
Kernel by_columns_of_b(const Product& p, int threads) {
  const BlockLoops& loop = *loops().block;
  const int64_t width = up_to(p.m, loop.width);
  const int team = useful_threads(threads, p.n, 2 * p.m * p.n * p.k);
  const int64_t shared = up_to(p.k * width, 16);
  const int64_t own = kColumnsAtOnce * width;
  return {[=, &loop](const KernelMemory& memory) {
            const float* const a = floats(memory.inputs[0]) + p.offset(0, 0);
            const float* const b = floats(memory.inputs[1]) + p.offset(1, 0);
            float* const c = static_cast<float*>(memory.outputs[0]) + p.offset(2, 0);
            auto* const rows = static_cast<float*>(memory.workspace);  // a': [k, width]
            if (p.a_column == 1) {
              loop.transpose(p.m, p.k, a, p.a_row, rows, width);
            }
            for (int64_t l = 0; l < p.k; ++l) {
              for (int64_t i = 0; p.a_column != 1 && i < p.m; ++i) {
                rows[l * width + i] = a[i * p.a_row + l * p.a_column];
              }
              std::fill(rows + l * width + p.m, rows + (l + 1) * width, 0.0F);
            }
            parallel_chunks(team, p.n, 1, [&](int64_t begin, int64_t end, int thread) {
              float* const made = rows + shared + thread * own;
              for (int64_t j = begin; j < end; j += kColumnsAtOnce) {
                const int64_t count = std::min(kColumnsAtOnce, end - j);
                for_each_part(p.k, [&](int64_t l, int64_t depth) {
                  loop.product(count, width, depth, b + j * p.b_column + l, p.b_column, 1,
                               rows + l * width, width, made, width, l > 0);
                });
                loop.transpose(count, p.m, made, width, c + j, p.c_row);
              }
            });
          },
          (shared + team * own) * static_cast<int64_t>(sizeof(float))};
}

// b has its rows dense.
Kernel by_rows_of_b(const Product& p, int threads) {
  const BlockLoops& loop = *loops().block;
  const int64_t whole = p.n / loop.width * loop.width;
  const int64_t rest = p.n - whole;
  const int team =
      useful_threads(threads, std::max<int64_t>(whole / loop.width, 1), 2 * p.m * p.n * p.k);
  // The last columns of b and of c, in registers' width.
  const int64_t last = rest > 0 ? up_to(p.k * loop.width, 16) + p.m * loop.width : 0;
  return {[=, &loop](const KernelMemory& memory) {
            const float* const a = floats(memory.inputs[0]) + p.offset(0, 0);
            const float* const b = floats(memory.inputs[1]) + p.offset(1, 0);
            float* const c = static_cast<float*>(memory.outputs[0]) + p.offset(2, 0);
            const auto multiply = [&](int64_t columns, const float* from, int64_t row, float* to,
                                      int64_t to_row) {
              for_each_part(p.k, [&](int64_t l, int64_t depth) {
                loop.product(p.m, columns, depth, a + l * p.a_column, p.a_row, p.a_column,
                             from + l * row, row, to, to_row, l > 0);
              });
            };
            parallel_chunks(team, whole, loop.width, [&](int64_t begin, int64_t end, int) {
              multiply(end - begin, b + begin, p.b_row, c + begin, p.c_row);
            });
            if (rest > 0) {
              auto* const columns = static_cast<float*>(memory.workspace);
              float* const made = columns + up_to(p.k * loop.width, 16);
              std::fill_n(columns, p.k * loop.width, 0.0F);
              for (int64_t l = 0; l < p.k; ++l) {
                std::copy_n(b + l * p.b_row + whole, rest, columns + l * loop.width);
              }
              multiply(loop.width, columns, loop.width, made, loop.width);
              for (int64_t i = 0; i < p.m; ++i) {
                std::copy_n(made + i * loop.width, rest, c + i * p.c_row + whole);
              }
            }
          },
          last * static_cast<int64_t>(sizeof(float))};
}

}  // namespace

Kernel batch_invariant_product(const Product& p, int threads, bool b_is_kept) {
  const bool turns = p.b_row == 1 && p.m <= kMostTurned;
  if (p.batches() == 1 && !b_is_kept && (turns || (p.b_column == 1 && p.m <= kMostRows))) {
    if (p.bias || !p.after.empty()) {
      return {};
    }
    return turns ? by_columns_of_b(p, threads) : by_rows_of_b(p, threads);
  }
  return packed_product(p, threads, b_is_kept);
}

}  // namespace mstrain::cpu
