// What the forward and backward kernels of attention share: sizes, packed operands of one head, visibility.
#pragma once

#include <cstring>
#include <limits>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"

namespace mstrain::cpu {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 64;
// Rows of a block on the causal diagonal that share one width; a multiple of the register block of BlockLoops.
inline constexpr int64_t kDiagonalRows = 12;
inline constexpr int64_t kFewQueries = 4;
inline constexpr int64_t kPad = 16;  // floats in the widest vector

inline int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }

// A tensor [b, t, h, d] with any strides.
struct HeadView {
  int64_t batch, position, head, element;
  explicit HeadView(const Shape& strides)
      : batch(strides[0]), position(strides[1]), head(strides[2]), element(strides[3]) {}
};

struct AttentionSizes {
  int64_t b, t, s, h, d, e;
  bool causal;
  float scale;
  int64_t heads() const { return b * h; }
  // How many of the keys [first, first + count) query `i` sees.
  int64_t visible(int64_t i, int64_t first, int64_t count) const {
    const int64_t end = causal ? std::min(s, i + (s - t) + 1) : s;
    return std::clamp<int64_t>(end - first, 0, count);
  }
  // The scores of queries i … i + rows and keys first … first + width, in rows of kKeyBlock.
  ScoreBlock block(int64_t i, int64_t rows, int64_t first, int64_t width, float* scores) const {
    const int64_t seen = causal ? i + (s - t) + 1 : s;
    return {rows, width, scores, kKeyBlock, seen - first, causal ? 1 : 0};
  }
};

// y[rows, columns padded with zeros], or its transpose y[columns, ld], of positions first … first + rows of one head.
inline void pack_rows(const float* x, const HeadView& view, int64_t first, int64_t rows,
                      int64_t columns, float* y, float factor = 1) {
  const int64_t ld = padded(columns);
  const float* from = x + first * view.position;
  if (view.element == 1) {
    loops().block->copy_rows(rows, columns, factor, from, view.position, y, ld, true);
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < ld; ++j) {
      y[i * ld + j] = j < columns ? factor * from[i * view.position + j * view.element] : 0.0F;
    }
  }
}
inline void pack_columns(const float* x, const HeadView& view, int64_t first, int64_t rows,
                         int64_t columns, float* y) {
  const int64_t ld = padded(rows);
  if (view.element == 1) {
    loops().block->transpose(rows, columns, x + first * view.position, view.position, y, ld);
  } else {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        y[j * ld + i] = x[(first + i) * view.position + j * view.element];
      }
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    std::fill(y + j * ld + rows, y + (j + 1) * ld, 0.0F);
  }
}

// The bias of one head.
struct BiasView {
  const float* data = nullptr;  // null: none
  int64_t row = 0, column = 1;
  // Adds that of queries i … and keys first … to the visible scores.
  void add_to(const ScoreBlock& block, int64_t i, int64_t first) const {
    for (int64_t r = 0; data != nullptr && r < block.rows; ++r) {
      const float* from = data + (i + r) * row + first * column;
      float* to = block.s + r * block.ld;
      const int64_t seen = std::clamp<int64_t>(block.seen + r * block.step, 0, block.n);
      for (int64_t j = 0; j < seen; ++j) {
        to[j] += from[j * column];
      }
    }
  }
};

// Hands out aligned pieces of scratch memory; with a null base it only counts.
class Scratch {
 public:
  explicit Scratch(float* base) : base_(base) {}
  float* take(int64_t floats) {
    float* const piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += padded(floats);
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

// A kernel that packs neither keys nor values; none (no run function) where the layout or the number of queries asks for
// the one that does.
// `bias_strides` has rank 0 without a bias.
Kernel attention_of_few_queries(const KernelRequest& request, const AttentionSizes& n,
                                const Shape& bias_strides);

}  // namespace mstrain::cpu
