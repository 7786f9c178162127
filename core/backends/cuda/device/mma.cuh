// Products of small matrices by a warp: 16 x 8 = 16 x 16 times 16 x 8, of 16-bit numbers with sums in f32 (PTX ISA, mma.m16n8k16).
//
// With g = lane / 4 and t = lane % 4 a thread holds, two numbers in a register:
//   a[0..3]  rows g, g + 8, g, g + 8; columns 2t and 2t + 1, in the last two 8 more
//   b[0..1]  column g; rows 2t and 2t + 1, in the second 8 more
//   c[0..3]  rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1
#pragma once

#include "core/backends/cuda/device/kernel.cuh"

namespace mstrain::cuda {

struct Fragment {
  uint32_t at[4];
};

#ifdef __CUDACC_RTC__

template <class Format>
uint32_t packed(float low, float high) {
  uint32_t two;
  if constexpr (std::is_same_v<Format, BF16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  }
  return two;
}

// Four matrices of 8 x 8 from shared memory, one in each of `to`: matrix m begins at row(m), column(m). A thread gets its row's
// numbers lane % 4 * 2 and the next, the row being lane / 4; of `turned` ones their columns are rows.
template <bool turned, int pitch, class Tile, class Row, class Column>
void load_matrices(uint32_t (&to)[4], Tile& tile, const Row& row, const Column& column) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, m = lane / 8;
  const auto at = static_cast<uint32_t>(
      __cvta_generic_to_shared(tile + (row(m) + lane % 8) * pitch + column(m)));
  if constexpr (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  }
}

// Eight numbers of 16 bits into shared memory, where both lie on 16 bytes; they are there after finish_copies().
template <class To, class From>
void begin_copy(To& to, int i, const From& from, int64_t j) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to + i))), "l"(from + j)
               : "memory");
}
// What was begun since the last call is one group; waits until no more than `left` of the thread's are on their way.
inline void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left>
void finish_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
template <class From>
bool lies_on_16_bytes(const From& from, int64_t j) {
  return (reinterpret_cast<uint64_t>(from + j) & 15U) == 0;
}

template <class Format>
void multiply_add(float (&c)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<Format, BF16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
  }
}

// Within two units in the last place; what is below 2^-126 is 0.
inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

template <class Format>
uint32_t packed(float low, float high) {
  return uint32_t(Format::store(low)) | uint32_t(Format::store(high)) << 16;
}

template <bool turned, int pitch, class Tile, class Row, class Column>
void load_matrices(uint32_t (&to)[4], Tile& tile, const Row& row, const Column& column) {
  const int g = static_cast<int>(threadIdx.x) % kWarp / 4, t = static_cast<int>(threadIdx.x) % 4;
  for (int m = 0; m < 4; ++m) {
    const int first = turned ? (row(m) + 2 * t) * pitch + column(m) + g
                             : (row(m) + g) * pitch + column(m) + 2 * t;
    const uint16_t low = tile[first], high = tile[first + (turned ? pitch : 1)];
    to[m] = uint32_t(low) | uint32_t(high) << 16;
  }
}

template <class To, class From>
void begin_copy(To& to, int i, const From& from, int64_t j) {
  begin_copy_by([=] {
    for (int k = 0; k < 8; ++k) {
      to[i + k] = uint16_t(from[j + k]);
    }
  });
}
template <class From>
bool lies_on_16_bytes(const From&, int64_t) {
  return true;
}

// By its definition: every lane is told what all others hold.
template <class Format>
void multiply_add(float (&c)[4], const Fragment& a, uint32_t b0, uint32_t b1) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  struct Held {
    uint32_t a[4], b[2];
  };
  const Held mine{{a.at[0], a.at[1], a.at[2], a.at[3]}, {b0, b1}};
  Held of[32];
  warp_gather(mine, of, __LINE__);
  const auto half = [](uint32_t two, int which) {
    return Format::load(static_cast<uint16_t>(which == 0 ? two : two >> 16));
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + (i / 2) * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const float x = half(of[row % 8 * 4 + k % 8 / 2].a[k / 8 * 2 + row / 8], k % 2);
      const float y = half(of[column * 4 + k % 8 / 2].b[k / 8], k % 2);
      c[i] += x * y;
    }
  }
}

inline float fast_exp2(float x) { return std::exp2(x); }

#endif

}  // namespace mstrain::cuda
