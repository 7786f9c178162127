// What the forward and backward kernels of attention share: sizes, packed operands of one head, visibility.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/attention_form.h"
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
// Floats from row to row of what is packed by columns: odd in lines, so that rows share no places of the first cache.
inline int64_t column_step(int64_t n) { return padded(n) | kPad; }

// A tensor [b, t, h, d] with any strides.
struct HeadView {
  int64_t batch, position, head, element;
  explicit HeadView(const Shape& strides)
      : batch(strides[0]), position(strides[1]), head(strides[2]), element(strides[3]) {}
};

struct AttentionSizes {
  int64_t b, t, s, h, key_heads, d, e;
  float scale;
  bool causal;
  int64_t window;  // 0: none
  // Of the batch element at hand: the place of the first query among the keys, and the keys outside of which its mask hides
  // all of them.
  int64_t start = 0, first_key = 0, end_key = 0;

  AttentionSizes(const AttentionForm& form, const Shape& q, const Shape& k, const Shape& v)
      : b(q[0]),
        t(q[1]),
        s(k[1]),
        h(q[2]),
        key_heads(k[2]),
        d(q[3]),
        e(v[3]),
        scale(static_cast<float>(form.scale)),
        causal(form.causal),
        window(form.window),
        start(k[1] - q[1]),
        end_key(k[1]) {}

  int64_t heads() const { return b * h; }
  // Query heads that read one key head.
  int64_t group() const { return key_heads == 0 ? 1 : h / key_heads; }
  // The scores of queries i … i + rows and keys first … first + width, in rows of kKeyBlock.
  ScoreBlock block(int64_t i, int64_t rows, int64_t first, int64_t width, float* scores) const {
    const int64_t place = i + start - first;
    const int64_t high = std::clamp<int64_t>(end_key - first, 0, width);
    return {rows,
            padded(width),
            scores,
            kKeyBlock,
            std::clamp<int64_t>(first_key - first, 0, high),
            high,
            window > 0 ? place + 1 - window : -rows,  // low, in every row
            causal ? place + 1 : width,
            causal ? 1 : 0};
  }
  // Which of the keys [first, first + count) any of the queries i … i + rows sees, counted from `first`.
  Range visible(int64_t i, int64_t rows, int64_t first, int64_t count) const {
    const ScoreBlock all = block(i, rows, first, count, nullptr);
    return {all.begin(0), all.end(rows - 1)};
  }
  // The same from a multiple of kPad on.
  Range columns(int64_t i, int64_t rows, int64_t first, int64_t count) const {
    const Range range = visible(i, rows, first, count);
    return {range.begin == range.end ? range.end : range.begin / kPad * kPad, range.end};
  }
  // How many of the rows go together: all where they see the same keys, else groups on the edge of what is visible.
  int64_t rows_alike(int64_t i, int64_t rows, int64_t first, int64_t count) const {
    const ScoreBlock all = block(i, rows, first, count, nullptr);
    const bool same = all.begin(0) == all.begin(rows - 1) && all.end(0) == all.end(rows - 1);
    return same ? rows : kDiagonalRows;
  }
};

// y[rows, columns padded with zeros], or its transpose y[columns, ld], rows padded likewise, of positions first … first + rows of one head.
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
                         int64_t columns, float* y, int64_t ld) {
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
    std::fill(y + j * ld + rows, y + j * ld + padded(rows), 0.0F);
  }
}

// The draw of attention_dropout: what probabilities are multiplied by.
struct DropoutView {
  float factor = 0;        // of those that stay; 0: no dropout
  uint32_t threshold = 0;  // the upper 24 bits of the words below it stay
  uint64_t site = 0;
  Shape whole;
  Attrs drawn_by;
  size_t input;  // the key's; the offset's is the next
  int64_t key_stride = 1, offset_stride = 1;
  std::array<uint32_t, 2> key{};
  std::array<int32_t, 4> offset{};

  // `draw`: which input is the key; 0: no dropout.
  DropoutView(const KernelRequest& request, size_t draw) : input(draw) {
    const Attrs& attrs = request.attrs;
    if (draw != 0) {
      key_stride = request.inputs[input].strides[0];
      offset_stride = request.inputs[input + 1].strides[0];
      const auto keep = static_cast<float>(1 - attrs.number("rate"));
      factor = static_cast<float>(1 / (1 - attrs.number("rate")));
      threshold = static_cast<uint32_t>(std::ceil(keep * 0x1p24F));
      site = static_cast<uint64_t>(attrs.integer("site"));
      whole = attrs.ints("whole");
      drawn_by = attrs;
    }
  }
  bool drops() const { return factor != 0; }
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
      check_within({n.b, n.h, n.t, n.s}, whole, out.offset.data(), drawn_by);
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

// What a row is from its sum of exponentials, which were taken of scores above `top`: the factor of its weighted values, and its logsumexp.
inline float share_of(float total) { return total > 0 ? 1.0F / total : total; }
inline float logsumexp_of(float top, float total) {
  return total > 0 ? top + std::log(total) : total == 0 ? -kInfinity : total;
}

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

}  // namespace mstrain::cpu
