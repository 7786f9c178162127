// Products in f32 that give a row the same bits whatever rows are beside it: every number is one sum in the order of
// packed_product(). Where rows are few, as in generation, packing b would cost more than multiplying by it; it is read where it lies.
#include <omp.h>

#include <algorithm>

#include "core/backends/cpu/ahead.h"
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

// b has its columns dense: c' = b' a', with a' in panels that the loops read from one end to the other.
class ByColumnsOfB {
 public:
  ByColumnsOfB(const Product& p, int threads)
      : p_(p),
        loop_(*loops().block),
        panel_(std::min<int64_t>(loop_.panel, up_to(p.m, loop_.width))),
        panels_((p.m + panel_ - 1) / panel_),
        team_(useful_threads(threads, p.n, 2 * p.m * p.n * p.k)) {}

  int team() const { return team_; }
  // a', [panels, k, panel], and for each thread what is made of a panel, [kColumnsAtOnce, panel].
  int64_t workspace_floats() const { return panels_ * step() + team_ * kColumnsAtOnce * panel_; }

  // Called by every thread of the team.
  void run(const float* a, const float* b, float* c, float* workspace, int thread) const {
    const Range own = chunk_of(panels_, 1, thread, team_);
    for (int64_t j = own.begin; j < own.end; ++j) {
      turn(a, j * panel_, workspace + j * step());
    }
    if (team_ > 1) {
#pragma omp barrier
    }
    float* const made = workspace + panels_ * step() + thread * kColumnsAtOnce * panel_;
    const Range columns = chunk_of(p_.n, BlockLoops::kRows, thread, team_);
    for (int64_t j = columns.begin; j < columns.end; j += kColumnsAtOnce) {
      const int64_t count = std::min(kColumnsAtOnce, columns.end - j);
      Ahead next(b + (j + count) * p_.b_column,
                 std::clamp<int64_t>(columns.end - j - count, 0, kColumnsAtOnce), p_.k, p_.b_column,
                 panels_);
      for (int64_t i = 0; i < p_.m; i += panel_) {
        next.ask();
        const float* const panel = workspace + i / panel_ * step();
        for_each_part(p_.k, [&](int64_t l, int64_t depth) {
          loop_.product(count, panel_, depth, b + j * p_.b_column + l, p_.b_column, 1,
                        panel + l * panel_, panel_, made, panel_, l > 0);
        });
        loop_.transpose(count, std::min<int64_t>(panel_, p_.m - i), made, panel_,
                        c + i * p_.c_row + j, p_.c_row);
      }
    }
  }

 private:
  int64_t step() const { return p_.k * panel_; }

  // Rows [first, first + panel) of a; zeros beyond m.
  void turn(const float* a, int64_t first, float* to) const {
    const int64_t rows = std::min<int64_t>(panel_, p_.m - first);
    if (p_.a_column == 1) {
      loop_.transpose(rows, p_.k, a + first * p_.a_row, p_.a_row, to, panel_);
    }
    for (int64_t l = 0; l < p_.k; ++l, to += panel_) {
      for (int64_t i = 0; p_.a_column != 1 && i < rows; ++i) {
        to[i] = a[(first + i) * p_.a_row + l * p_.a_column];
      }
      std::fill(to + rows, to + panel_, 0.0F);
    }
  }

  Product p_;
  const BlockLoops& loop_;
  int64_t panel_, panels_;
  int team_;
};

Kernel by_columns_of_b(const Product& p, int threads) {
  const ByColumnsOfB product(p, threads);
  return {[=](const KernelMemory& memory) {
            const float* const a = floats(memory.inputs[0]) + p.offset(0, 0);
            const float* const b = floats(memory.inputs[1]) + p.offset(1, 0);
            float* const c = static_cast<float*>(memory.outputs[0]) + p.offset(2, 0);
            auto* const workspace = static_cast<float*>(memory.workspace);
            if (product.team() == 1) {
              product.run(a, b, c, workspace, 0);
              return;
            }
#pragma omp parallel num_threads(product.team())
            product.run(a, b, c, workspace, omp_get_thread_num());
          },
          product.workspace_floats() * static_cast<int64_t>(sizeof(float))};
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
