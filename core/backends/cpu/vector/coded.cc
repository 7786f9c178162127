// Weights in fewer bits (core/ops/weight_code.h): decoded, and multiplied by a few rows as they are read.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "core/backends/cpu/loops.h"
#include "core/ops/weight_code.h"

namespace mstrain::cpu::MSTRAIN_ISA {
namespace {

using Floats = Vector<float>;
using Words = Vector<int32_t>;
constexpr int kWidth = Simd<float>::kLanes;
// Rows of x that share what is decoded: as many as registers hold sums of.
constexpr int kRows = kVectorBytes == 64 ? 8 : 4;

MSTRAIN_ALWAYS_INLINE Floats as_floats(Words bits) { return reinterpret_cast<Floats>(bits); }

// Integers of T, each in a lane of its own. One instruction; of a conversion between vector types GCC makes six, and of the
// unmasked intrinsics a warning.
template <class T>
MSTRAIN_ALWAYS_INLINE Words widened(const uint8_t* from) {
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;
  if constexpr (sizeof(T) == 2) {
    return reinterpret_cast<Words>(_mm512_maskz_cvtepu16_epi32(
        kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  } else {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return reinterpret_cast<Words>(std::numeric_limits<T>::is_signed
                                       ? _mm512_maskz_cvtepi8_epi32(kAll, bytes)
                                       : _mm512_maskz_cvtepu8_epi32(kAll, bytes));
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 2) {
    return reinterpret_cast<Words>(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  } else {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return reinterpret_cast<Words>(std::numeric_limits<T>::is_signed ? _mm256_cvtepi8_epi32(bytes)
                                                                     : _mm256_cvtepu8_epi32(bytes));
  }
#else
  typedef T Few __attribute__((vector_size(kWidth * sizeof(T)), aligned(1), may_alias));
  return __builtin_convertvector(*reinterpret_cast<const Few*>(from), Words);
#endif
}

template <class T>
MSTRAIN_ALWAYS_INLINE T load_bytes(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// A scale from its bits.
template <class T, int shift, uint32_t base>
MSTRAIN_ALWAYS_INLINE float load_scale(const uint8_t* from) {
  const uint32_t bits = (uint32_t{load_bytes<T>(from)} << shift) + base;
  float scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

// `count` of them, times `factor`.
template <class T, int shift, uint32_t base>
MSTRAIN_ALWAYS_INLINE void load_scales(const uint8_t* from, int64_t count, float factor,
                                       float* to) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Words bits = (widened<T>(from + i * kBytes) << shift) + static_cast<int32_t>(base);
    store<float>(to + i, as_floats(bits) * factor);
  }
  for (; i < count; ++i) {
    to[i] = load_scale<T, shift, base>(from + i * kBytes) * factor;
  }
}

// What is special to each code: the numbers of a block without their scale, vector by vector, and scales of blocks.

struct Bf16 {
  static constexpr WeightCode kCode = WeightCode::kBf16;
  template <class Function>
  MSTRAIN_ALWAYS_INLINE static void for_each(const uint8_t* codes, const Function& f) {
    for (int v = 0; v < 32 / kWidth; ++v) {
      f(v, as_floats(widened<uint16_t>(codes + 2 * v * kWidth) << 16));
    }
  }
};

struct Int8 {
  static constexpr WeightCode kCode = WeightCode::kInt8;
  template <class Function>
  MSTRAIN_ALWAYS_INLINE static void for_each(const uint8_t* codes, const Function& f) {
    for (int v = 0; v < 32 / kWidth; ++v) {
      f(v, __builtin_convertvector(widened<int8_t>(codes + v * kWidth), Floats));
    }
  }
  // Those of blocks [first, first + count) of a row of `blocks`, all of one group.
  MSTRAIN_ALWAYS_INLINE static void scales(const uint8_t* row, int64_t blocks, int64_t first,
                                           int64_t count, float* to) {
    load_scales<uint16_t, kWideScaleShift, kWideScaleBase - kOneOf128>(
        row + blocks * code_bytes(kCode) + 2 * first, count, 1.0F, to);
  }
};

struct Nf4 {
  static constexpr WeightCode kCode = WeightCode::kNf4;
  // The levels that the lower 4 bits of each lane name.
  MSTRAIN_ALWAYS_INLINE static Floats levels(Words codes) {
    if constexpr (kWidth == 16) {
      return __builtin_shuffle(load(kNf4Levels), codes);
    } else if constexpr (kWidth == 8) {
      return (codes << 28) < 0 ? __builtin_shuffle(load(kNf4Levels + 8), codes)
                               : __builtin_shuffle(load(kNf4Levels), codes);
    } else {
      Floats result;
      for (int i = 0; i < kWidth; ++i) {
        result[i] = kNf4Levels[codes[i] & 15];
      }
      return result;
    }
  }
  template <class Function>
  MSTRAIN_ALWAYS_INLINE static void for_each(const uint8_t* codes, const Function& f) {
    for (int v = 0; v < 32 / kWidth; ++v) {
      const Words pairs = widened<uint8_t>(codes + v * kWidth);
      f(v, levels(pairs));
      f(v + 32 / kWidth, levels(pairs >> 4));
    }
  }
  MSTRAIN_ALWAYS_INLINE static void scales(const uint8_t* row, int64_t blocks, int64_t first,
                                           int64_t count, float* to) {
    const uint8_t* const own = row + blocks * code_bytes(kCode);
    const float group = load_scale<uint16_t, kWideScaleShift, kWideScaleBase>(
        own + blocks + first / kScaleGroup * 2);
    load_scales<uint8_t, kNarrowScaleShift, kNarrowScaleBase>(own + first, count, group, to);
  }
};

template <class Code>
constexpr bool kHasScales = Code::kCode != WeightCode::kBf16;

// y[i * ldy] = x[i] · the row, for i < rows.
template <class Code, int rows>
MSTRAIN_ALWAYS_INLINE void multiply_row(const float* x, int64_t ldx, const uint8_t* row,
                                        int64_t blocks, float* y, int64_t ldy) {
  constexpr int64_t kBlock = code_block(Code::kCode);
  Floats sums[rows] = {};
  for (int64_t first = 0; first < blocks; first += kScaleGroup) {
    const int64_t count = blocks - first < kScaleGroup ? blocks - first : kScaleGroup;
    alignas(64) float scales[kScaleGroup];
    if constexpr (kHasScales<Code>) {
      Code::scales(row, blocks, first, count, scales);
    }
    for (int64_t b = 0; b < count; ++b) {
      const float* const at = x + (first + b) * kBlock;
      Floats part[rows] = {};
      Code::for_each(
          row + (first + b) * code_bytes(Code::kCode), [&](int v, Floats numbers) __attribute__((
                                                           always_inline)) {
            for (int i = 0; i < rows; ++i) {
              part[i] += numbers * load(at + i * ldx + v * kWidth);
            }
          });
      for (int i = 0; i < rows; ++i) {
        if constexpr (kHasScales<Code>) {
          sums[i] += part[i] * splat(scales[b]);
        } else {
          sums[i] += part[i];
        }
      }
    }
  }
  for (int i = 0; i < rows; ++i) {
    y[i * ldy] = sum_lanes<float>(sums[i]);
  }
}

template <class Code, int rows>
void multiply_rows(const CodedRows& w, const float* x, int64_t ldx, float* y, int64_t ldy) {
  const int64_t blocks = code_blocks_of(Code::kCode, w.width);
  for (int64_t j = 0; j < w.count; ++j) {
    multiply_row<Code, rows>(x, ldx, w.rows + j * w.bytes, blocks, y + j, ldy);
  }
}

using MultiplyRows = void (*)(const CodedRows& w, const float* x, int64_t ldx, float* y,
                              int64_t ldy);
template <class Code>
constexpr MultiplyRows kMultiplyRows[8] = {
    multiply_rows<Code, 1>, multiply_rows<Code, 2>, multiply_rows<Code, 3>, multiply_rows<Code, 4>,
    multiply_rows<Code, 5>, multiply_rows<Code, 6>, multiply_rows<Code, 7>, multiply_rows<Code, 8>};

// What a row of codes is read for once more than kRows times lies in the first cache by then.
template <class Code>
void product(int64_t m, const CodedRows& w, const float* x, int64_t ldx, float* y, int64_t ldy) {
  if (m <= kRows) {
    kMultiplyRows<Code>[m - 1](w, x, ldx, y, ldy);
    return;
  }
  for (int64_t j = 0; j < w.count; ++j) {
    const CodedRows one = {w.rows + j * w.bytes, 1, w.bytes, w.width};
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t rows = m - i < kRows ? m - i : kRows;
      kMultiplyRows<Code>[rows - 1](one, x + i * ldx, ldx, y + i * ldy + j, ldy);
    }
  }
}

template <class Code>
void decode(const uint8_t* row, int64_t width, int64_t begin, int64_t end, float* to) {
  constexpr int64_t kBlock = code_block(Code::kCode);
  const int64_t blocks = code_blocks_of(Code::kCode, width);
  for (int64_t b = begin / kBlock; b * kBlock < end; ++b) {
    float scale = 1;
    if constexpr (kHasScales<Code>) {
      Code::scales(row, blocks, b, 1, &scale);
    }
    const int64_t length = end - b * kBlock < kBlock ? end - b * kBlock : kBlock;
    float whole[kBlock];
    float* const at = length == kBlock ? to + b * kBlock - begin : whole;
    Code::for_each(
        row + b * code_bytes(Code::kCode), [&](int v,
                                               Floats numbers) __attribute__((always_inline)) {
          store<float>(at + v * kWidth, numbers * splat(scale));
        });
    if (length < kBlock) {
      std::memcpy(to + b * kBlock - begin, whole, static_cast<size_t>(length) * sizeof(float));
    }
  }
}

}  // namespace

extern const CodedLoops kCodedLoops;
const CodedLoops kCodedLoops = {{product<Bf16>, product<Int8>, product<Nf4>},
                                {decode<Bf16>, decode<Int8>, decode<Nf4>}};

}  // namespace mstrain::cpu::MSTRAIN_ISA
