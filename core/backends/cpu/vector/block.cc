// Products of small matrices in cache, transposes, and the row steps of attention.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/vector/reduce.h"

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

typedef uint32_t Eight __attribute__((vector_size(32)));
typedef uint32_t EightAnywhere __attribute__((vector_size(32), aligned(4), may_alias));

void transpose_8x8(const uint32_t* a, int64_t lda, uint32_t* b, int64_t ldb) {
  Eight r[8], t[8];
  for (int i = 0; i < 8; ++i) {
    r[i] = *reinterpret_cast<const EightAnywhere*>(a + i * lda);
  }
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int half = 0; half < 2; ++half) {
      r[i + 2 * half] =
          __builtin_shufflevector(t[i + half], t[i + half + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 2 * half + 1] =
          __builtin_shufflevector(t[i + half], t[i + half + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<EightAnywhere*>(b + i * ldb) =
        __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<EightAnywhere*>(b + (i + 4) * ldb) =
        __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

template <class T>
void transpose_edge(int64_t rows, int64_t cols, const T* a, int64_t lda, T* b, int64_t ldb) {
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      b[j * ldb + i] = a[i * lda + j];
    }
  }
}

void transpose32(int64_t rows, int64_t cols, const uint32_t* a, int64_t lda, uint32_t* b,
                 int64_t ldb) {
  const int64_t whole = rows / 8 * 8;
  int64_t j = 0;
  for (; j + 8 <= cols; j += 8) {
    for (int64_t i = 0; i < whole; i += 8) {
      transpose_8x8(a + i * lda + j, lda, b + j * ldb + i, ldb);
    }
  }
  transpose_edge(rows, cols - j, a + j, lda, b + j * ldb, ldb);
  transpose_edge(rows - whole, j, a + whole * lda, lda, b + whole, ldb);
}

void transpose64(int64_t rows, int64_t cols, const uint64_t* a, int64_t lda, uint64_t* b,
                 int64_t ldb) {
  constexpr int64_t kBlock = 8;
  for (int64_t i = 0; i < rows; i += kBlock) {
    for (int64_t j = 0; j < cols; j += kBlock) {
      transpose_edge(std::min(kBlock, rows - i), std::min(kBlock, cols - j), a + i * lda + j, lda,
                     b + j * ldb + i, ldb);
    }
  }
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
      const Floats p = each_lane<scalar::exp<float>>(x - shift[i]);
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
      const Floats p = each_lane<scalar::exp<float>>(x - lse[i]);
      store<float>(row + j, p);
      store<float>(d_row + j, p * (load(d_row + j) - delta[i]));
    });
    clear(row, end, block.n);
    clear(d_row, end, block.n);
  }
}

void adamw(int64_t n, const AdamwFactors& f, const float* p, const float* g, const float* m,
           const float* v, float* new_p, float* new_m, float* new_v) {
  const float keep1 = static_cast<float>(f.beta1);
  const float take1 = static_cast<float>(1 - f.beta1);
  const float keep2 = static_cast<float>(f.beta2);
  const float take2 = static_cast<float>(1 - f.beta2);
  const float eps = static_cast<float>(f.eps);
  const float decay = static_cast<float>(f.weight_decay);
  const float lr = f.lr;
  const float grad_scale = f.grad_scale;
  const float inverse1 = 1.0F / f.correction1;
  const float inverse2 = 1.0F / f.correction2;
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float gs = g[i] * grad_scale;
    const float mi = keep1 * m[i] + take1 * gs;
    const float vi = keep2 * v[i] + take2 * (gs * gs);
    new_m[i] = mi;
    new_v[i] = vi;
    new_p[i] = p[i] - lr * (mi * inverse1 / (std::sqrt(vi * inverse2) + eps) + decay * p[i]);
  }
}

void philox(int64_t blocks, uint64_t first, uint64_t stream, const uint32_t* key, uint32_t* words) {
  const uint32_t s0 = static_cast<uint32_t>(stream);
  const uint32_t s1 = static_cast<uint32_t>(stream >> 32);
  const uint32_t key0 = key[0];
  const uint32_t key1 = key[1];
  MSTRAIN_INDEPENDENT
  for (int64_t i = 0; i < blocks; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    uint32_t c0 = static_cast<uint32_t>(index);
    uint32_t c1 = static_cast<uint32_t>(index >> 32);
    uint32_t c2 = s0;
    uint32_t c3 = s1;
    uint32_t k0 = key0;
    uint32_t k1 = key1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    words[4 * i] = c0;
    words[4 * i + 1] = c1;
    words[4 * i + 2] = c2;
    words[4 * i + 3] = c3;
  }
}

void to_uniform(int64_t n, const uint32_t* words, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24F;
  }
}

// sqrt(-2 ln(1 - u)) cos(2πv): v in quarter turns is reduced without error.
MSTRAIN_FLATTEN void to_normal(int64_t n, const uint32_t* words, float* y) {
  constexpr float kRound = 0x1.8p23F;
  for (int64_t i = 0; i < n; ++i) {
    const float u = static_cast<float>(static_cast<int32_t>(words[2 * i] >> 8)) * 0x1p-24F;
    const float quarters =
        static_cast<float>(static_cast<int32_t>(words[2 * i + 1] >> 8)) * 0x1p-22F;
    const float shifted = quarters + kRound;
    const float angle = (quarters - (shifted - kRound)) * 1.5707963267948966F;
    const float cosine = scalar::detail::sin_or_cos(angle, scalar::detail::bits_of(shifted) + 1);
    y[i] = std::sqrt(-2.0F * scalar::log<float>(1.0F - u)) * cosine;
  }
}

}  // namespace

extern const BlockLoops kBlockLoops;
extern const OtherLoops kOtherLoops;
const BlockLoops kBlockLoops = {
    kWidth,      kPanel,       product,           product_from, transpose,  copy_rows, copy_panels,
    copy_narrow, softmax_step, softmax_grad_step, choose,       scale_rows, dot_rows};
const OtherLoops kOtherLoops = {adamw, transpose32, transpose64, philox, to_uniform, to_normal};

}  // namespace mstrain::cpu::MSTRAIN_ISA
