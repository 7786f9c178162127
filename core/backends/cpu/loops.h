// Vector loops of the cpu backend: plain functions on raw memory, compiled for several instruction sets (vector/) and
// chosen once per process for the machine at hand. They run on one thread and never fail.
#pragma once

#include <cstdint>

#include "core/base/isa.h"
#include "core/ops/weight_code.h"
#include "core/runtime/dtype.h"

namespace mstrain::cpu {

inline constexpr int kTile = 1024;  // elements that a tile loop works on at most

// What tiles are computed in: f32 for f32, bf16 and f16; i64 for integers and bool; bytes for conditions.
enum class Lane : uint8_t { kF32, kF64, kI64, kU8 };
constexpr Lane lane_of(Dtype dtype) {
  return dtype == Dtype::kF64 ? Lane::kF64 : is_floating(dtype) ? Lane::kF32 : Lane::kI64;
}
// Whether memory of `dtype` is a tile of its lane as it stands.
constexpr bool is_lane_type(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kI64;
}

// n elements of the inputs to n elements of the output, which may be one of the inputs.
using TileLoop = void (*)(int64_t n, const void* const* inputs, void* output);
using ConvertLoop = void (*)(int64_t n, const void* input, void* output);

// One elementwise operation; null where a lane has none. Conditions are bytes.
struct ElementwiseLoop {
  const char* name;
  TileLoop f32 = nullptr, f64 = nullptr, i64 = nullptr, u8 = nullptr;
};

struct ElementwiseLoops {
  const ElementwiseLoop* rows;  // in the order of the table of operations
  int count;
  ConvertLoop load[kNumDtypes];  // from memory of a dtype to its lane
  ConvertLoop store
      [3]
      [kNumDtypes];  // from a lane to memory: rounds to nearest even; float to integer truncates and saturates; integers wrap
};

// Of a sum over rows, before it joins the thread's total: so that it has the same bits in a group as alone.
inline constexpr int64_t kRowsOfBlock = 64;

// Sums are accumulated in blocks whose totals are added in double.
template <class T>
struct RowLoops {
  double (*sum)(int64_t n, const T* x);
  double (*sum_squares)(int64_t n, const T* x);
  T (*max)(int64_t n, const T* x);  // NaN where any element is; n > 0
  T (*min)(int64_t n, const T* x);
  T (*prod)(int64_t n, const T* x);
  // y[i] = y[i] op x[i]
  void (*add_to)(int64_t n, const T* x, T* y);
  void (*max_to)(int64_t n, const T* x, T* y);
  void (*min_to)(int64_t n, const T* x, T* y);
  void (*mul_to)(int64_t n, const T* x, T* y);
  // y[j] += x[i * stride + j] for all i < rows: column sums.
  void (*add_rows)(int64_t rows, int64_t n, const T* x, int64_t stride, T* y);
  int64_t (*argmax)(int64_t n, const T* x);  // first among ties; NaN wins
  int64_t (*argmin)(int64_t n, const T* x);

  // Of dense rows.
  void (*softmax)(int64_t rows, int64_t n, const T* x, T* y);
  void (*log_softmax)(int64_t rows, int64_t n, const T* x, T* y);
  void (*softmax_grad)(int64_t rows, int64_t n, const T* y, const T* g, T* dx);
  void (*log_softmax_grad)(int64_t rows, int64_t n, const T* y, const T* g, T* dx);
  // y = (x - mean) rstd weight + bias
  void (*layer_norm)(int64_t n, const T* x, const T* weight, const T* bias, T eps, T* y, T* mean,
                     T* rstd);
  // Adds to dweight and dbias.
  void (*layer_norm_grad)(int64_t n, const T* g, const T* x, const T* weight, T mean, T rstd, T* dx,
                          T* dweight, T* dbias);
  void (*rms_norm)(int64_t n, const T* x, const T* weight, T eps, T* y, T* rstd);
  void (*rms_norm_grad)(int64_t n, const T* g, const T* x, const T* weight, T rstd, T* dx,
                        T* dweight);
  // core/ops/rotary.h, on `heads` heads of 2 half elements each; y may be x.
  void (*rotate)(int64_t heads, int64_t half, const T* x, const T* cos, const T* sin, T* y);
  T (*logsumexp)(int64_t n, const T* x);
  // y = scale * exp(x - lse) + shift; y may be x.
  void (*scaled_exp)(int64_t n, const T* x, T lse, T scale, T shift, T* y);
};

// Scores s[rows, n], of which row i shows those from max(low, from + i * step) on, and before min(high, to + i * step).
// 0 <= low <= high <= n.
struct ScoreBlock {
  int64_t rows, n;
  float* s;
  int64_t ld, low, high, from, to, step;
  // Never as functions of their own: the linker could keep one that is compiled for a newer processor.
  [[gnu::always_inline]] int64_t end(int64_t row) const { return bounded(to + row * step, high); }
  [[gnu::always_inline]] int64_t begin(int64_t row) const {
    return bounded(from + row * step, end(row));
  }
  [[gnu::always_inline]] int64_t bounded(int64_t j, int64_t most) const {
    return j < low ? low : j > most ? most : j;
  }
};
inline constexpr int64_t kMaxScoreRows = 64;

// Matrix products of small blocks in the first caches. C[m, n] (+)= A[m, k] B[k, n]; A has any strides; rows of B and C
// are dense and readable up to the next multiple of `width` columns.
struct BlockLoops {
  // Rows of c that product() keeps in registers at a time.
  static constexpr int64_t kRows = 6;
  static constexpr int64_t kWidestPanel = 64;
  int width;  // floats in a vector
  int panel;  // columns of c that it keeps there
  void (*product)(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                  const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate);
  // The same with row[n], readable like the rows of B, added to each row of A B.
  void (*product_from)(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row,
                       int64_t a_col, const float* b, int64_t ldb, float* c, int64_t ldc,
                       const float* row);
  // b[j, i] = a[i, j] for a[rows, cols]
  void (*transpose)(int64_t rows, int64_t cols, const float* a, int64_t lda, float* b, int64_t ldb);
  // y = factor x for x[rows, columns]; columns of y up to the next multiple of 16 become zero where `pad`.
  void (*copy_rows)(int64_t rows, int64_t columns, float factor, const float* x, int64_t ldx,
                    float* y, int64_t ldy, bool pad);
  // Columns of x[rows, …] in panels of `panel`: y[j step + …] becomes panel j of `panels`, dense.
  void (*copy_panels)(int64_t rows, int64_t panels, const float* x, int64_t ldx, float* y,
                      int64_t step);
  // kRows columns of x[rows, …], one row after the other.
  void (*copy_narrow)(int64_t rows, const float* x, int64_t ldx, float* y);
  // One block of an online softmax: replaces scores by exp(s - max'), where max' = max(max, s), zero beyond what is
  // visible; rescales the running sums; gives each row's factor for what was summed before. n: a multiple of `width`.
  void (*softmax_step)(const ScoreBlock& block, float* max, float* sum, float* factor);
  // s becomes p = exp(s - lse), zero beyond what is visible, and dp becomes p (dp - delta).
  void (*softmax_grad_step)(const ScoreBlock& block, float* dp, const float* lse,
                            const float* delta);
  // y[i] = factor where the upper 24 bits of words[i] are below `threshold`, else 0.
  void (*choose)(int64_t n, const uint32_t* words, uint32_t threshold, float factor, float* y);
  // Row i of y times factor[i].
  void (*scale_rows)(int64_t rows, int64_t n, const float* factor, float* y, int64_t ld);
  // result[i] = x[i] · y[i]
  void (*dot_rows)(int64_t rows, int64_t n, const float* x, int64_t ldx, const float* y,
                   int64_t ldy, float* result);
};

struct AdamwFactors {
  double beta1, beta2, eps, weight_decay;
  float lr, grad_scale, correction1, correction2;
};

struct OtherLoops {
  void (*adamw)(int64_t n, const AdamwFactors& f, const float* p, const float* g, const float* m,
                const float* v, float* new_p, float* new_m, float* new_v);
  // m[i] within `most` times the root of v[i]
  void (*limit_moment)(int64_t n, float most, const float* v, float* m);
  // b[j, i] = a[i, j] for elements of 4 and 8 bytes
  void (*transpose32)(int64_t rows, int64_t cols, const uint32_t* a, int64_t lda, uint32_t* b,
                      int64_t ldb);
  void (*transpose64)(int64_t rows, int64_t cols, const uint64_t* a, int64_t lda, uint64_t* b,
                      int64_t ldb);
  // Philox4x32-10 blocks: words[4 i + w] is word w of block first + i.
  void (*philox)(int64_t blocks, uint64_t first, uint64_t stream, const uint32_t* key,
                 uint32_t* words);
  void (*to_uniform)(int64_t n, const uint32_t* words, float* y);  // [0, 1), one word each
  void (*to_normal)(int64_t n, const uint32_t* words, float* y);   // two words each
};

// Blocks of numbers in fewer bits; core/ops/block_code.h defines them. `words`: a random word for each element.
struct StorageLoops {
  void (*round)(int64_t n, const float* x, const uint32_t* words, BFloat16* y);
  float (*scale)(int64_t n, const float* x);
  // By whether the numbers have signs.
  void (*encode[2])(int64_t n, const float* x, float scale, const uint32_t* words, uint8_t* codes);
  void (*decode[2])(int64_t n, const uint8_t* codes, float scale, float* x);
};

// `count` rows of `width` numbers each, in codes (core/ops/weight_code.h) or as floats, `bytes` from one to the next.
struct CodedRows {
  const uint8_t* rows;
  int64_t count, bytes, width;
};

// Bytes of a row of x as products with codes read it.
constexpr int64_t ready_bytes(WeightCode code, int64_t width) {
  const int64_t blocks = code_blocks_of(code, width);
  const int64_t of_block = code == WeightCode::kInt8
                               ? code_block(code) * 2 + 4
                               : code_block(code) * static_cast<int64_t>(sizeof(float));
  return (blocks * of_block + 63) / 64 * 64;
}

// Weights in fewer bits, by WeightCode.
struct CodedLoops {
  // x[width] as product() reads it. For int8 in blocks of 32, as integers of 16 bits in units of 1 / 32767 of the largest
  // magnitude; NaN and infinities make all sums of their row NaN.
  void (*ready[kNumWeightCodes])(int64_t width, const float* x, void* to);
  // y[i * ldy + j] = x[i] · row j, for i < m and all rows; ldx in bytes. The same sums in the same order whatever m and the
  // number of rows are. m > 0.
  void (*product[kNumWeightCodes])(int64_t m, const CodedRows& w, const void* x, int64_t ldx,
                                   float* y, int64_t ldy);
  // The same with rows of floats, and x as it is.
  void (*product_of_floats)(int64_t m, const CodedRows& w, const void* x, int64_t ldx, float* y,
                            int64_t ldy);
  // Numbers [begin, end) of a row; `begin` is that of a block.
  void (*decode[kNumWeightCodes])(const uint8_t* row, int64_t width, int64_t begin, int64_t end,
                                  float* to);
};

struct Loops {
  const ElementwiseLoops* elementwise;
  const RowLoops<float>* f32;
  const RowLoops<double>* f64;
  const BlockLoops* block;
  const OtherLoops* other;
  const StorageLoops* storage;
  const CodedLoops* coded;
  template <class T>
  const RowLoops<T>& rows() const {
    if constexpr (sizeof(T) == 4) {
      return *f32;
    } else {
      return *f64;
    }
  }
};

// The loops for an instruction set; null where the processor lacks it.
const Loops* loops_for(Isa isa);

// Those for isa(); throws as it does.
const Loops& loops();

}  // namespace mstrain::cpu
