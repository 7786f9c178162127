// Weights in fewer bits (core/ops/weight_code.h): decoded, and multiplied by a few rows as they are read.
#include "core/backends/cpu/vector/isa.h"
// Other headers after it.
#include <type_traits>
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

template <WeightCode code>
struct Coded {
  static constexpr WeightCode kCode = code;
  static constexpr int64_t kBlock = code_block(code);
  static constexpr int64_t kBytes = code_bytes(code);
  static constexpr bool kHasScales = code != WeightCode::kBf16;
};

// Numbers as they are, in whole blocks.
struct Plain {
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 4 * kBlock;
  static constexpr bool kHasScales = false;
  template <class Function>
  MSTRAIN_ALWAYS_INLINE static void for_each(const uint8_t* numbers, const Function& f) {
    for (int v = 0; v < 32 / kWidth; ++v) {
      f(v, load(reinterpret_cast<const float*>(numbers) + v * kWidth));
    }
  }
};

struct Bf16 : Coded<WeightCode::kBf16> {
  template <class Function>
  MSTRAIN_ALWAYS_INLINE static void for_each(const uint8_t* codes, const Function& f) {
    for (int v = 0; v < 32 / kWidth; ++v) {
      f(v, as_floats(widened<uint16_t>(codes + 2 * v * kWidth) << 16));
    }
  }
};

struct Int8 : Coded<WeightCode::kInt8> {
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
        row + blocks * kBytes + 2 * first, count, 1.0F, to);
  }
};

struct Nf4 : Coded<WeightCode::kNf4> {
  // The levels that the lower 4 bits of each lane name. A permutation takes as many bits as its table has lanes.
  MSTRAIN_ALWAYS_INLINE static Floats levels(Words codes) {
#if defined(__AVX512F__)
    return _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(codes), load(kNf4Levels));
#elif defined(__AVX2__)
    const auto lanes = reinterpret_cast<__m256i>(codes);
    return (codes << 28) < 0 ? _mm256_permutevar8x32_ps(load(kNf4Levels + 8), lanes)
                             : _mm256_permutevar8x32_ps(load(kNf4Levels), lanes);
#else
    Floats result;
    for (int i = 0; i < kWidth; ++i) {
      result[i] = kNf4Levels[codes[i] & 15];
    }
    return result;
#endif
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
    const uint8_t* const own = row + blocks * kBytes;
    const float group = load_scale<uint16_t, kWideScaleShift, kWideScaleBase>(
        own + blocks + first / kScaleGroup * 2);
    load_scales<uint8_t, kNarrowScaleShift, kNarrowScaleBase>(own + first, count, group, to);
  }
};

// How many blocks from `first` on have their scales at hand together.
MSTRAIN_ALWAYS_INLINE int64_t blocks_of_group(int64_t first, int64_t blocks) {
  return blocks - first < kScaleGroup ? blocks - first : kScaleGroup;
}

// Several rows at once are streams too short for the processor to see in time where they go: while block b of `columns` rows
// is multiplied, what lies in its place of those that come next is asked for.
template <class Code, int columns>
MSTRAIN_ALWAYS_INLINE void ask_for_next(const CodedRows& w, int64_t b) {
  if constexpr (columns > 1) {
    const uint8_t* const next = w.rows + columns * (w.bytes + b * Code::kBytes);
    for (int64_t i = 0; i < columns * Code::kBytes; i += 64) {
      __builtin_prefetch(next + i);
    }
  }
}

template <int rows, int columns>
MSTRAIN_ALWAYS_INLINE void store_sums(const Floats (&sums)[rows][columns], float* y, int64_t ldy) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      y[i * ldy + j] = sum_lanes<float>(sums[i][j]);
    }
  }
}

// y[i * ldy + j] = x[i] · row j, for i < rows and j < columns.
template <class Code, int rows, int columns>
MSTRAIN_ALWAYS_INLINE void multiply_tile(const CodedRows& w, int64_t blocks, const float* x,
                                         int64_t ldx, float* y, int64_t ldy) {
  Floats sums[rows][columns] = {};
  for (int64_t first = 0; first < blocks; first += kScaleGroup) {
    const int64_t count = blocks_of_group(first, blocks);
    alignas(64) float scales[columns][kScaleGroup];
    if constexpr (Code::kHasScales) {
      for (int j = 0; j < columns; ++j) {
        Code::scales(w.rows + j * w.bytes, blocks, first, count, scales[j]);
      }
    }
    for (int64_t b = 0; b < count; ++b) {
      const float* const at = x + (first + b) * Code::kBlock;
      ask_for_next<Code, columns>(w, first + b);
      for (int j = 0; j < columns; ++j) {
        Floats part[rows] = {};
        Code::for_each(
            w.rows + j * w.bytes + (first + b) * Code::kBytes, [&](int v, Floats numbers)
                                                                   __attribute__((always_inline)) {
                                                                     for (int i = 0; i < rows;
                                                                          ++i) {
                                                                       part[i] +=
                                                                           numbers *
                                                                           load(at + i * ldx +
                                                                                v * kWidth);
                                                                     }
                                                                   });
        for (int i = 0; i < rows; ++i) {
          if constexpr (Code::kHasScales) {
            sums[i][j] += part[i] * splat(scales[j][b]);
          } else {
            sums[i][j] += part[i];
          }
        }
      }
    }
  }
  store_sums(sums, y, ldy);
}

// How x is read in a product with codes: as floats, filled up with zeros.
template <class Code>
void ready(int64_t width, const float* x, void* to) {
  const int64_t padded = code_blocks_of(Code::kCode, width) * Code::kBlock;
  auto* const floats = static_cast<float*>(to);
  std::memcpy(floats, x, static_cast<size_t>(width) * sizeof(float));
  for (int64_t i = width; i < padded; ++i) {
    floats[i] = 0;
  }
}

// With int8 codes: as integers of 16 bits for each block of codes, then a float for each block that tells what their unit is;
// sums over a block are those of integers, in half the instructions.

// Sums of neighbours of codes[i] x[i] for i < 2 kWidth.
MSTRAIN_ALWAYS_INLINE Words sum_pairs(const uint8_t* codes, const int16_t* x) {
#if defined(__AVX512F__)
  constexpr __mmask32 kAll = 0xffffffffU;
  const __m512i wide =
      _mm512_maskz_cvtepi8_epi16(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
  return reinterpret_cast<Words>(_mm512_madd_epi16(wide, _mm512_loadu_si512(x)));
#elif defined(__AVX2__)
  const __m256i wide =
      _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  return reinterpret_cast<Words>(
      _mm256_madd_epi16(wide, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
#else
  Words sums;
  for (int i = 0; i < kWidth; ++i) {
    sums[i] = static_cast<int8_t>(codes[2 * i]) * x[2 * i] +
              static_cast<int8_t>(codes[2 * i + 1]) * x[2 * i + 1];
  }
  return sums;
#endif
}

template <int rows, int columns>
MSTRAIN_ALWAYS_INLINE void multiply_int8_tile(const CodedRows& w, int64_t blocks, const int16_t* x,
                                              int64_t ldx, float* y, int64_t ldy) {
  constexpr int64_t kBlock = Int8::kBlock;
  Floats sums[rows][columns] = {};
  for (int64_t first = 0; first < blocks; first += kScaleGroup) {
    const int64_t count = blocks_of_group(first, blocks);
    alignas(64) float units[rows][columns][kScaleGroup];  // of the sums of a block
    for (int j = 0; j < columns; ++j) {
      alignas(64) float scales[kScaleGroup];
      Int8::scales(w.rows + j * w.bytes, blocks, first, count, scales);
      for (int i = 0; i < rows; ++i) {
        const auto* const of_x =
            reinterpret_cast<const float*>(x + i * ldx + blocks * kBlock) + first;
        for (int64_t b = 0; b < count; ++b) {
          units[i][j][b] = scales[b] * of_x[b];
        }
      }
    }
    for (int64_t b = 0; b < count; ++b) {
      const int16_t* const at = x + (first + b) * kBlock;
      ask_for_next<Int8, columns>(w, first + b);
      for (int j = 0; j < columns; ++j) {
        const uint8_t* const codes = w.rows + j * w.bytes + (first + b) * kBlock;
        for (int i = 0; i < rows; ++i) {
          Words part = sum_pairs(codes, at + i * ldx);
          for (int v = 2 * kWidth; v < kBlock; v += 2 * kWidth) {
            part += sum_pairs(codes + v, at + i * ldx + v);
          }
          sums[i][j] += __builtin_convertvector(part, Floats) * splat(units[i][j][b]);
        }
      }
    }
  }
  store_sums(sums, y, ldy);
}

// The unit is 1 / 32767 of the largest magnitude; NaN where a number is none, or infinite.
void ready_int8(int64_t width, const float* x, void* to) {
  constexpr int64_t kBlock = Int8::kBlock;
  constexpr float kRound = 0x1.8p23F;
  const int64_t blocks = code_blocks_of(Int8::kCode, width);
  auto* const integers = static_cast<int16_t*>(to);
  auto* const units = reinterpret_cast<float*>(integers + blocks * kBlock);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t length = width - b * kBlock < kBlock ? width - b * kBlock : kBlock;
    alignas(64) float block[kBlock] = {};
    std::memcpy(block, x + b * kBlock, static_cast<size_t>(length) * sizeof(float));
    uint32_t most_bits = 0;
    for (int64_t i = 0; i < kBlock; ++i) {
      uint32_t bits;
      std::memcpy(&bits, block + i, sizeof(bits));
      bits &= 0x7fffffffU;
      most_bits = bits > most_bits ? bits : most_bits;  // as integers, NaN is above all
    }
    float most;
    std::memcpy(&most, &most_bits, sizeof(most));
    const bool is_finite = most_bits < 0x7f800000U;
    // Below that, products with codes are nothing.
    const float steps = is_finite && most > 1e-30F ? 32767.0F / most : 0.0F;
    units[b] = is_finite ? most / 32767.0F : std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 0; i < kBlock; ++i) {
      const float rounded = (is_finite ? block[i] * steps : 0.0F) + kRound - kRound;
      integers[b * kBlock + i] = static_cast<int16_t>(static_cast<int32_t>(rounded));
    }
  }
}

template <class Code, int rows, int columns>
MSTRAIN_ALWAYS_INLINE void multiply(const CodedRows& w, const void* x, int64_t ldx, float* y,
                                    int64_t ldy) {
  if constexpr (std::is_same_v<Code, Int8>) {
    multiply_int8_tile<rows, columns>(w, code_blocks_of(Code::kCode, w.width),
                                      static_cast<const int16_t*>(x), ldx / 2, y, ldy);
  } else if constexpr (std::is_same_v<Code, Plain>) {
    const auto* const floats = static_cast<const float*>(x);
    const int64_t whole = w.width / Plain::kBlock;
    multiply_tile<Plain, rows, columns>(w, whole, floats, ldx / 4, y, ldy);
    for (int64_t k = whole * Plain::kBlock; k < w.width; ++k) {
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          y[i * ldy + j] +=
              floats[i * (ldx / 4) + k] * reinterpret_cast<const float*>(w.rows + j * w.bytes)[k];
        }
      }
    }
  } else {
    multiply_tile<Code, rows, columns>(w, code_blocks_of(Code::kCode, w.width),
                                       static_cast<const float*>(x), ldx / 4, y, ldy);
  }
}

// A single row of x goes by two rows of codes at a time: what begins and ends a row, its scales above all, then takes its time
// once for both. Without scales one long stream is read faster.
template <class Code, int rows>
void multiply_rows(const CodedRows& w, const void* x, int64_t ldx, float* y, int64_t ldy) {
  constexpr int kColumns = rows == 1 && Code::kHasScales ? 2 : 1;
  int64_t j = 0;
  for (; j + kColumns <= w.count; j += kColumns) {
    multiply<Code, rows, kColumns>({w.rows + j * w.bytes, kColumns, w.bytes, w.width}, x, ldx,
                                   y + j, ldy);
  }
  for (; j < w.count; ++j) {
    multiply<Code, rows, 1>({w.rows + j * w.bytes, 1, w.bytes, w.width}, x, ldx, y + j, ldy);
  }
}

using MultiplyRows = void (*)(const CodedRows& w, const void* x, int64_t ldx, float* y,
                              int64_t ldy);
template <class Code>
constexpr MultiplyRows kMultiplyRows[8] = {
    multiply_rows<Code, 1>, multiply_rows<Code, 2>, multiply_rows<Code, 3>, multiply_rows<Code, 4>,
    multiply_rows<Code, 5>, multiply_rows<Code, 6>, multiply_rows<Code, 7>, multiply_rows<Code, 8>};

// A row of codes that is read for once more than kRows rows of x lies in the first cache by then.
template <class Code>
void product(int64_t m, const CodedRows& w, const void* x, int64_t ldx, float* y, int64_t ldy) {
  if (m <= kRows) {
    kMultiplyRows<Code>[m - 1](w, x, ldx, y, ldy);
    return;
  }
  for (int64_t j = 0; j < w.count; ++j) {
    const CodedRows one = {w.rows + j * w.bytes, 1, w.bytes, w.width};
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t rows = m - i < kRows ? m - i : kRows;
      kMultiplyRows<Code>[rows - 1](one, static_cast<const uint8_t*>(x) + i * ldx, ldx,
                                    y + i * ldy + j, ldy);
    }
  }
}

template <class Code>
void decode(const uint8_t* row, int64_t width, int64_t begin, int64_t end, float* to) {
  constexpr int64_t kBlock = Code::kBlock;
  const int64_t blocks = code_blocks_of(Code::kCode, width);
  for (int64_t b = begin / kBlock; b * kBlock < end; ++b) {
    float scale = 1;
    if constexpr (Code::kHasScales) {
      Code::scales(row, blocks, b, 1, &scale);
    }
    const int64_t length = end - b * kBlock < kBlock ? end - b * kBlock : kBlock;
    float whole[kBlock];
    float* const at = length == kBlock ? to + b * kBlock - begin : whole;
    Code::for_each(
        row + b * Code::kBytes, [&](int v, Floats numbers) __attribute__((always_inline)) {
          store<float>(at + v * kWidth, numbers * splat(scale));
        });
    if (length < kBlock) {
      std::memcpy(to + b * kBlock - begin, whole, static_cast<size_t>(length) * sizeof(float));
    }
  }
}

}  // namespace

extern const CodedLoops kCodedLoops;
const CodedLoops kCodedLoops = {{ready<Bf16>, ready_int8, ready<Nf4>},
                                {product<Bf16>, product<Int8>, product<Nf4>},
                                product<Plain>,
                                {decode<Bf16>, decode<Int8>, decode<Nf4>}};

}  // namespace mstrain::cpu::MSTRAIN_ISA
