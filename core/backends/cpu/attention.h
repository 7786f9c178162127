// What the forward and backward kernels of attention share: sizes, packed operands of one head, visibility.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/random_draw.h"

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

// The draw of attention_dropout: what probabilities are multiplied by.
struct DropoutView {
  float factor = 0;        // of those that stay; 0: no dropout
  uint32_t threshold = 0;  // the upper 24 bits of the words below it stay
  uint64_t site = 0;
  Shape whole;
  size_t input = 0;  // the key's; the offset's is the next
  int64_t key_stride = 1, offset_stride = 1;
  std::array<uint32_t, 2> key{};
  std::array<int32_t, 4> offset{};

  // `after`: how many inputs come after those two.
  DropoutView(const KernelRequest& request, size_t after) {
    const Attrs& attrs = request.attrs;
    if (attrs.find("rate") != nullptr) {
      input = request.inputs.size() - after - 2;
      key_stride = request.inputs[input].strides[0];
      offset_stride = request.inputs[input + 1].strides[0];
      const auto keep = static_cast<float>(1 - attrs.number("rate"));
      factor = static_cast<float>(1 / (1 - attrs.number("rate")));
      threshold = static_cast<uint32_t>(std::ceil(keep * 0x1p24F));
      site = static_cast<uint64_t>(attrs.integer("site"));
      whole = attrs.ints("whole");
    }
  }
  bool drops() const { return factor != 0; }
  size_t inputs() const { return drops() ? 2 : 0; }
  // The same with the key and the offset that a run was given. Throws Error where the part [b, h, t, s] leaves the whole.
  DropoutView of(const KernelMemory& memory, const AttentionSizes& n) const {
    DropoutView out = *this;
    if (drops()) {
      for (int64_t i = 0; i < 2; ++i) {
        out.key[static_cast<size_t>(i)] =
            static_cast<const uint32_t*>(memory.inputs[input])[i * key_stride];
      }
      for (int64_t i = 0; i < 4; ++i) {
        out.offset[static_cast<size_t>(i)] =
            static_cast<const int32_t*>(memory.inputs[input + 1])[i * offset_stride];
      }
      check_within({n.b, n.h, n.t, n.s}, whole, out.offset.data());
    }
    return out;
  }
  // Factors of queries i … of a head and keys first …, in rows of kKeyBlock.
  void draw(const AttentionSizes& n, int64_t head, int64_t i, int64_t rows, int64_t first,
            int64_t count, float* factors) const {
    alignas(64) uint32_t words[2 * kKeyBlock];
    const int64_t place = (offset[0] + head / n.h) * whole[1] + offset[1] + head % n.h;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t start = (place * whole[2] + offset[2] + i + r) * whole[3] + offset[3] + first;
      const int64_t skipped = start % 4;
      loops().other->philox((skipped + count + 3) / 4, static_cast<uint64_t>(start / 4), site,
                            key.data(), words);
      loops().block->choose(count, words + skipped, threshold, factor, factors + r * kKeyBlock);
    }
  }
};

// x[r, j] *= y[r, j], both in rows of kKeyBlock.
inline void multiply_rows(int64_t rows, int64_t columns, const float* y, float* x) {
  for (int64_t r = 0; r < rows; ++r) {
    loops().f32->mul_to(columns, y + r * kKeyBlock, x + r * kKeyBlock);
  }
}

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
