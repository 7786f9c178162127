// Transposes of matrices of 32 and 64 bits, for the sources of this folder (after isa.h).
#pragma once

#include <algorithm>

namespace mstrain::cpu::MSTRAIN_ISA {

typedef uint32_t Eight __attribute__((vector_size(32)));
typedef uint32_t EightAnywhere __attribute__((vector_size(32), aligned(4), may_alias));

inline void transpose_8x8(const uint32_t* a, int64_t lda, uint32_t* b, int64_t ldb) {
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

inline void transpose32(int64_t rows, int64_t cols, const uint32_t* a, int64_t lda, uint32_t* b,
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

inline void transpose64(int64_t rows, int64_t cols, const uint64_t* a, int64_t lda, uint64_t* b,
                        int64_t ldb) {
  constexpr int64_t kBlock = 8;
  for (int64_t i = 0; i < rows; i += kBlock) {
    for (int64_t j = 0; j < cols; j += kBlock) {
      transpose_edge(std::min(kBlock, rows - i), std::min(kBlock, cols - j), a + i * lda + j, lda,
                     b + j * ldb + i, ldb);
    }
  }
}

}  // namespace mstrain::cpu::MSTRAIN_ISA
