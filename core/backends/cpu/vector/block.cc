// Products of small matrices in cache, transposes, and the row steps of attention.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/vector/reduce.h"
#include "core/backends/cpu/vector/transpose.h"

namespace mstrain::cpu::MSTRAIN_ISA {
namespace {

using Floats = Vector<float>;
constexpr int kWidth = Simd<float>::kLanes;
// A block of C stays in kRows x kColumns registers (of 32 or 16).
constexpr int kRows = BlockLoops::kRows;
constexpr int kColumns = kVectorBytes == 64 ? 4 : 2;
constexpr int kPanel = kColumns * kWidth;
static_assert(kPanel <= BlockLoops::kWidestPanel);

struct Strides {
  int64_t a_row, a_col, ldb;
};

struct Operands {
  int64_t k;
  Strides strides;
  int64_t ldc;
  bool accumulate;
  const float* row;  // what all rows of c begin with; null: nothing
};

// sum += left * right. Processors whose threads share a core begin as few instructions in a cycle as a product has for two
// multiply-adds: none is left for the copies that GCC makes when it chooses the form itself.
MSTRAIN_ALWAYS_INLINE void multiply_add(Floats& sum, const Floats& left, const Floats& right) {
#if defined(__FMA__) && !defined(__AVX512F__)
  asm("vfmadd231ps %1, %2, %0" : "+x"(sum) : "x"(left), "x"(right));
#else
  sum += left * right;
#endif
}

// `fixed`: strides that are known here, which leaves instructions out; 0 where they are not. Not a part of its callers, which
// would leave it few registers for addresses.
template <int rows, int columns, Strides fixed>
[[gnu::noinline]] void multiply(const Operands& o, const float* a, const float* b, float* c) {
  constexpr int kSteps = 8;
  constexpr int kPointers = fixed.a_row != 0 ? 1 : rows;
  const int64_t a_col = o.strides.a_col, ldb = o.strides.ldb, ldc = o.ldc;
  // What the block of c waits for comes while its sums are made.
  MSTRAIN_UNROLLED
  for (int r = 0; r < rows; ++r) {
    __builtin_prefetch(c + r * ldc, 1);
    __builtin_prefetch(c + r * ldc + columns * kWidth - 1, 1);
  }
  const float* from[kPointers];
  MSTRAIN_UNROLLED
  for (int r = 0; r < kPointers; ++r) {
    from[r] = a + r * o.strides.a_row;
  }
  Floats sums[rows][columns] = {};
  const auto advance = [&](int64_t by_a, int64_t by_b) __attribute__((always_inline)) {
    MSTRAIN_UNROLLED
    for (int r = 0; r < kPointers; ++r) {
      from[r] += by_a;
    }
    b += by_b;
  };
  const auto step = [&](int ahead) __attribute__((always_inline)) {
    Floats right[columns];
    MSTRAIN_UNROLLED
    for (int j = 0; j < columns; ++j) {
      right[j] = load(b + ahead * fixed.ldb + j * kWidth);
    }
    MSTRAIN_UNROLLED
    for (int r = 0; r < rows; ++r) {
      const Floats left = splat(from[r % kPointers][r * fixed.a_row + ahead * fixed.a_col]);
      MSTRAIN_UNROLLED
      for (int j = 0; j < columns; ++j) {
        multiply_add(sums[r][j], left, right[j]);
      }
    }
    advance(fixed.a_col != 0 ? 0 : a_col, fixed.ldb != 0 ? 0 : ldb);
  };
  int64_t steps = o.k;
  for (; steps >= kSteps; steps -= kSteps) {
    MSTRAIN_UNROLLED
    for (int l = 0; l < kSteps; ++l) {
      step(l);
    }
    advance(kSteps * fixed.a_col, kSteps * fixed.ldb);
    // Or compilers make each address anew from fewer pointers.
    MSTRAIN_UNROLLED
    for (int r = 0; r < kPointers; ++r) {
      asm("" : "+r"(from[r]));
    }
  }
  for (; steps > 0; --steps) {
    step(0);
    advance(fixed.a_col, fixed.ldb);
  }
  const float* const from_row = o.accumulate ? c : o.row;
  const int64_t from_step = o.accumulate ? ldc : 0;
  MSTRAIN_UNROLLED
  for (int r = 0; r < rows; ++r) {
    MSTRAIN_UNROLLED
    for (int j = 0; j < columns; ++j) {
      const float* const begin = from_row + r * from_step + j * kWidth;
      store<float>(c + r * ldc + j * kWidth,
                   from_row != nullptr ? load(begin) + sums[r][j] : sums[r][j]);
    }
  }
}

using Multiply = void (*)(const Operands& o, const float* a, const float* b, float* c);

template <int rows, int columns>
Multiply multiply_for(const Strides& s) {
  constexpr int64_t kDense = columns * kWidth;
  const bool dense = rows == kRows && s.ldb == kDense;
  if (s.a_col == 1) {
    return dense ? multiply<rows, columns, {0, 1, kDense}> : multiply<rows, columns, {0, 1, 0}>;
  }
  if (s.a_row == 1) {
    return dense && s.a_col == kRows ? multiply<rows, columns, {1, kRows, kDense}>
                                     : multiply<rows, columns, {1, 0, 0}>;
  }
  return multiply<rows, columns, {0, 0, 0}>;
}

// The last rows, of which there are at most `rows`.
template <int rows, int columns>
void multiply_rest(const Operands& o, int64_t m, const float* a, const float* b, float* c) {
  if constexpr (rows > 0) {
    if (m == rows) {
      multiply_for<rows, columns>(o.strides)(o, a, b, c);
    } else {
      multiply_rest<rows - 1, columns>(o, m, a, b, c);
    }
  }
}

// What is left of the columns of a product.
struct Rest {
  Operands o;
  int64_t m, vectors;
  const float *a, *b;
  float* c;

  // Strips of `columns` vectors, as far as they go. Of at most `most` rows, where there are no more.
  template <int columns, int most = kRows>
  void strips() {
    for (; vectors >= columns; vectors -= columns, b += columns * kWidth, c += columns * kWidth) {
      int64_t done = 0;
      if constexpr (most == kRows) {
        const Multiply whole = multiply_for<kRows, columns>(o.strides);
        for (; done + kRows <= m; done += kRows) {
          whole(o, a + done * o.strides.a_row, b, c + done * o.ldc);
        }
      }
      multiply_rest<most == kRows ? kRows - 1 : most, columns>(
          o, m - done, a + done * o.strides.a_row, b, c + done * o.ldc);
      o.row += o.row == nullptr ? 0 : columns * kWidth;
    }
  }
};

void multiply_all(Rest rest) {
  // A sum waits for its last term: a row or two have columns enough to do meanwhile.
  if (rest.m == 1) {
    rest.strips<8, 1>();
  }
  if (rest.m <= 2) {
    rest.strips<4, 2>();
  }
  rest.strips<kColumns>();
  rest.strips<2>();
  rest.strips<1>();
}

constexpr int64_t vectors_of(int64_t n) { return (n + kWidth - 1) / kWidth; }

void product(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col,
             const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  multiply_all({{k, {a_row, a_col, ldb}, ldc, accumulate, nullptr}, m, vectors_of(n), a, b, c});
}

void product_from(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                  const float* b, int64_t ldb, float* c, int64_t ldc, const float* row) {
  multiply_all({{k, {a_row, a_col, ldb}, ldc, false, row}, m, vectors_of(n), a, b, c});
}

void transpose(int64_t rows, int64_t cols, const float* a, int64_t lda, float* b, int64_t ldb) {
  transpose32(rows, cols, reinterpret_cast<const uint32_t*>(a), lda, reinterpret_cast<uint32_t*>(b),
              ldb);
}

void copy_rows(int64_t rows, int64_t columns, float factor, const float* x, int64_t ldx, float* y,
               int64_t ldy, bool pad) {
  const int64_t whole = columns / kWidth * kWidth;
  const int64_t end = pad ? (columns + 15) / 16 * 16 : columns;
  for (int64_t i = 0; i < rows; ++i, x += ldx, y += ldy) {
    for (int64_t j = 0; j < whole; j += kWidth) {
      store<float>(y + j, load(x + j) * factor);
    }
    for (int64_t j = whole; j < columns; ++j) {
      y[j] = x[j] * factor;
    }
    for (int64_t j = columns; j < end; ++j) {
      y[j] = 0;
    }
  }
}

void copy_panels(int64_t rows, int64_t panels, const float* x, int64_t ldx, float* y,
                 int64_t step) {
  for (; panels > 0; --panels, x += kPanel, y += step) {
    for (int64_t i = 0; i < rows; ++i) {
      MSTRAIN_UNROLLED
      for (int j = 0; j < kPanel; j += kWidth) {
        store<float>(y + i * kPanel + j, load(x + i * ldx + j));
      }
    }
  }
}

void copy_narrow(int64_t rows, const float* x, int64_t ldx, float* y) {
  typedef float Wide __attribute__((vector_size(32), aligned(4), may_alias));
  static_assert(kRows < 8);
  // What a vector holds beyond the row is written over by the next one: so is it for all but the last.
  for (; rows > 1; --rows, x += ldx, y += kRows) {
    *reinterpret_cast<Wide*>(y) = *reinterpret_cast<const Wide*>(x);
  }
  for (int i = 0; rows == 1 && i < kRows; ++i) {
    y[i] = x[i];
  }
}

void choose(int64_t n, const uint32_t* words, uint32_t threshold, float factor, float* y) {
  const auto limit = static_cast<int32_t>(threshold);
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<int32_t>(words[i] >> 8) < limit ? factor : 0.0F;
  }
}

void scale_rows(int64_t rows, int64_t n, const float* factor, float* y, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i, y += ld) {
    const float f = factor[i];
    for (int64_t j = 0; j < n; j += kWidth) {
      store<float>(y + j, load(y + j) * f);
    }
  }
}

void dot_rows(int64_t rows, int64_t n, const float* x, int64_t ldx, const float* y, int64_t ldy,
              float* result) {
  for (int64_t i = 0; i < rows; ++i) {
    result[i] = sum_block(n, x + i * ldx, y + i * ldy, [](auto a, auto b) { return a * b; });
  }
}

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Lanes 0, 1, 2, …
MSTRAIN_ALWAYS_INLINE Vector<int32_t> lane_numbers() {
  Vector<int32_t> numbers{};
  for (int i = 0; i < kWidth; ++i) {
    numbers[i] = i;
  }
  return numbers;
}
// x where lane `first` + i lies in [begin, end), else -inf.
MSTRAIN_ALWAYS_INLINE Floats visible(Floats x, int64_t first, int64_t begin, int64_t end) {
  const Vector<int32_t> lanes = lane_numbers();
  return (lanes >= static_cast<int32_t>(begin - first)) &
                 (lanes < static_cast<int32_t>(end - first))
             ? x
             : splat(kLowest);
}

// Calls f(j, x) for each vector x = row[j …) that shows any of [begin, end), with -inf in place of what it hides. Gives where
// the last one ends.
template <class Function>
MSTRAIN_ALWAYS_INLINE int64_t for_visible(int64_t begin, int64_t end, const float* row,
                                          Function&& f) {
  int64_t j = begin / kWidth * kWidth;
  if (begin >= end) {
    return j;
  }
  if (j < begin) {
    f(j, visible(load(row + j), j, begin, end));
    j += kWidth;
  }
  for (; j + kWidth <= end; j += kWidth) {
    f(j, load(row + j));
  }
  if (j < end) {
    f(j, visible(load(row + j), j, begin, end));
    j += kWidth;
  }
  return j;
}
// Zeros in all vectors from `begin` on, a multiple of their width, that lie before `end`.
MSTRAIN_ALWAYS_INLINE void clear(float* row, int64_t begin, int64_t end) {
  for (int64_t j = begin; j + kWidth <= end; j += kWidth) {
    store<float>(row + j, Floats{});
  }
}

// Reductions of rows are independent, so that their latencies overlap; what each row has one of is done in vectors.
MSTRAIN_FLATTEN void softmax_step(const ScoreBlock& block, float* max, float* sum, float* factor) {
  alignas(64) float shift[kMaxScoreRows];
  alignas(64) float total[kMaxScoreRows];
  for (int64_t i = 0; i < block.rows; ++i) {
    Floats top = splat(kLowest);
    for_visible(block.begin(i), block.end(i), block.s + i * block.ld,
                [&](int64_t, Floats x) { top = Larger()(top, x); });
    total[i] = fold_lanes<float>(top, Larger());
  }
  for (int64_t i = 0; i < block.rows; ++i) {
    const float top = total[i] > max[i] ? total[i] : max[i];
    shift[i] = top == kLowest ? 0.0F : top;
    factor[i] = scalar::exp<float>(max[i] - shift[i]);
    max[i] = top;
  }
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = block.s + i * block.ld;
    const int64_t begin = block.begin(i);
    Floats sums{};
    clear(row, 0, begin);
    const int64_t end = for_visible(begin, block.end(i), row, [&](int64_t j, Floats x) {
      const Floats p = each_lane<scalar::detail::exp_flushed>(x - shift[i]);
      store<float>(row + j, p);
      sums += p;
    });
    clear(row, end, block.n);
    total[i] = sum_lanes<float>(sums);
  }
  for (int64_t i = 0; i < block.rows; ++i) {
    sum[i] = sum[i] * factor[i] + total[i];
  }
}

MSTRAIN_FLATTEN void softmax_grad_step(const ScoreBlock& block, float* dp, const float* lse,
                                       const float* delta) {
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = block.s + i * block.ld;
    float* d_row = dp + i * block.ld;
    const int64_t begin = block.begin(i);
    clear(row, 0, begin);
    clear(d_row, 0, begin);
    const int64_t end = for_visible(begin, block.end(i), row, [&](int64_t j, Floats x) {
      const Floats p = each_lane<scalar::detail::exp_flushed>(x - lse[i]);
      store<float>(row + j, p);
      store<float>(d_row + j, p * (load(d_row + j) - delta[i]));
    });
    clear(row, end, block.n);
    clear(d_row, end, block.n);
  }
}

}  // namespace

extern const BlockLoops kBlockLoops;
const BlockLoops kBlockLoops = {
    kWidth,      kPanel,       product,           product_from, transpose,  copy_rows, copy_panels,
    copy_narrow, softmax_step, softmax_grad_step, choose,       scale_rows, dot_rows};

}  // namespace mstrain::cpu::MSTRAIN_ISA
