// What warp groups of sm_90a are asked: products of tiles in shared memory by four warps (wgmma), which run on while their warps
// do other things, and barriers of some of a block's threads (PTX ISA, "wgmma", "mbarrier", "bar", "setmaxnreg").
//
// A tile is rows of 64 numbers of 16 bits: 128 bytes, whose eight pieces of 16 bytes are swizzled: piece i of row r lies at place
// i xor r % 8. It begins at a multiple of 1024 bytes. Wider rows are several tiles, one after another.
#pragma once

#include "core/backends/cuda/device/mma.cuh"

namespace mstrain::cuda {

inline constexpr int kWarpGroup = 128;
inline constexpr int kRowOfTile = 64;  // numbers

// Where number `column` of row `row` lies in tiles of `rows` rows.
constexpr int swizzled(int rows, int row, int column) {
  return (column / kRowOfTile * rows + row) * kRowOfTile +
         ((column % kRowOfTile / 8) ^ (row % 8)) * 8 + column % 8;
}

// What tells a product where 16 summands of tiles are: the address of the first, what lies between neighbouring tiles (of the
// operand that is turned), and between eights of rows; swizzled by 128 bytes.
inline uint64_t operand_at(uint32_t address, int rows) {
  return uint64_t((address & 0x3ffffU) >> 4U) | uint64_t(rows * 128 >> 4) << 16U |
         uint64_t(1024 >> 4) << 32U | uint64_t(1) << 62U;
}
// Summands [16 step, 16 step + 16) along rows.
inline uint64_t operand_along(uint32_t address, int rows, int step) {
  return operand_at(address + uint32_t(step / 4 * rows * 128 + step % 4 * 32), rows);
}
// Summands that are rows [16 step, 16 step + 16): the operand is turned.
inline uint64_t operand_across(uint32_t address, int rows, int step) {
  return operand_at(address + uint32_t(step * 16 * 128), rows);
}

template <class T>
using Pair = Pack<T, 2>;

#ifdef __CUDACC_RTC__

// c[64, n] (+)= a[64, 16] b[16, n] is begun, between begin_products() and end_products(); a warp has 16 rows of c as in mma.cuh.
// What it reads and writes is not touched until finish_products().
#define MSTRAIN_SUMS(c, i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define MSTRAIN_SUMS_8(c, i)                                                                  \
  MSTRAIN_SUMS(c, i), MSTRAIN_SUMS(c, i + 1), MSTRAIN_SUMS(c, i + 2), MSTRAIN_SUMS(c, i + 3), \
      MSTRAIN_SUMS(c, i + 4), MSTRAIN_SUMS(c, i + 5), MSTRAIN_SUMS(c, i + 6),                 \
      MSTRAIN_SUMS(c, i + 7)
#define MSTRAIN_SUMS_32                                                                        \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
  "%25,%26,%27,%28,%29,%30,%31"
#define MSTRAIN_SUMS_64                                                                       \
  MSTRAIN_SUMS_32                                                                             \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// Operands: the sums, then a and b and whether c is kept, then which are turned.
#define MSTRAIN_MULTIPLY(n, type, sums, a, b, keep, turn, ...)                               \
  asm volatile("{ .reg .pred kept; setp.ne.b32 kept, " keep                                  \
               ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" sums \
               "}, " a ", " b ", kept, 1, 1, " turn "; }"                                    \
               : __VA_ARGS__)

template <class Format, bool a_turned, bool b_turned, int parts>
void multiply(float (&c)[parts][4], uint64_t a, uint64_t b, bool keep) {
  static_assert(parts == 8 || parts == 16);
#define MSTRAIN_IN "l"(a), "l"(b), "r"(int(keep)), "n"(int(a_turned)), "n"(int(b_turned))
#define MSTRAIN_CASE(type)                                                          \
  if constexpr (parts == 8) {                                                       \
    MSTRAIN_MULTIPLY("64", type, MSTRAIN_SUMS_32, "%32", "%33", "%34", "%35, %36",  \
                     MSTRAIN_SUMS_8(c, 0)                                           \
                     : MSTRAIN_IN);                                                 \
  } else {                                                                          \
    MSTRAIN_MULTIPLY("128", type, MSTRAIN_SUMS_64, "%64", "%65", "%66", "%67, %68", \
                     MSTRAIN_SUMS_8(c, 0), MSTRAIN_SUMS_8(c, 8)                     \
                     : MSTRAIN_IN);                                                 \
  }
  if constexpr (std::is_same_v<Format, BF16>) {
    MSTRAIN_CASE("bf16")
  } else {
    MSTRAIN_CASE("f16")
  }
#undef MSTRAIN_CASE
#undef MSTRAIN_IN
}

// The same with a in registers: 16 rows for each warp.
template <class Format, bool b_turned, int parts>
void multiply(float (&c)[parts][4], const Fragment& a, uint64_t b, bool keep) {
  static_assert(parts == 8 || parts == 16);
#define MSTRAIN_IN \
  "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b), "r"(int(keep)), "n"(int(b_turned))
#define MSTRAIN_CASE(type)                                                                   \
  if constexpr (parts == 8) {                                                                \
    MSTRAIN_MULTIPLY("64", type, MSTRAIN_SUMS_32, "{%32,%33,%34,%35}", "%36", "%37", "%38",  \
                     MSTRAIN_SUMS_8(c, 0)                                                    \
                     : MSTRAIN_IN);                                                          \
  } else {                                                                                   \
    MSTRAIN_MULTIPLY("128", type, MSTRAIN_SUMS_64, "{%64,%65,%66,%67}", "%68", "%69", "%70", \
                     MSTRAIN_SUMS_8(c, 0), MSTRAIN_SUMS_8(c, 8)                              \
                     : MSTRAIN_IN);                                                          \
  }
  if constexpr (std::is_same_v<Format, BF16>) {
    MSTRAIN_CASE("bf16")
  } else {
    MSTRAIN_CASE("f16")
  }
#undef MSTRAIN_CASE
#undef MSTRAIN_IN
}

// Here the compiler takes registers for changed.
template <int parts>
void hold(float (&c)[parts][4]) {
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    asm volatile("" : MSTRAIN_SUMS(c, i) : : "memory");
  }
}
template <int steps>
void hold(Fragment (&a)[steps]) {
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    asm volatile(""
                 : "+r"(a[i].at[0]), "+r"(a[i].at[1]), "+r"(a[i].at[2]), "+r"(a[i].at[3])
                 :
                 : "memory");
  }
}
// What this number, which is never below 0, is made of is computed before what follows: the compiler would else wait for products
// first, and compute when nothing is on its way.
inline void compute_now(float x) {
  if (x < 0) {
    asm volatile("nanosleep.u32 20;" ::: "memory");
  }
}
// Registers that products will read or write are as they shall be.
template <class... Registers>
void begin_products(Registers&... registers) {
  (hold(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// What was begun since the last call is one group.
inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until no more than `left` groups of the warp are on their way; `registers` are those of the groups that have ended.
template <int left, class... Registers>
void finish_products(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
  (hold(registers), ...);
}

inline uint32_t address_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
// What others' copies and stores have brought into shared memory is there for products of this thread's warp group.
inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// As begin_copy(); zeros where there is nothing to copy.
template <class To, class From>
void begin_copy_or_zeros(const To& to, int i, const From& from, int64_t j, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :
               : "r"(address_of(to + i)), "l"(from + j), "r"(there ? 16 : 0)
               : "memory");
}

// As begin_copy_or_zeros(), of one number of f32.
template <class To, class From>
void begin_copy_of_number(const To& to, int i, const From& from, int64_t j, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(address_of(to + i)), "l"(from + j), "r"(there ? 4 : 0)
               : "memory");
}
// Numbers of f32 that lie there.
inline float* as_numbers(uint16_t* shared) { return reinterpret_cast<float*>(shared); }
inline Pair<float> pair_at(const float* numbers, int i) {
  return *reinterpret_cast<const Pair<float>*>(numbers + i);
}

// Eight numbers of 16 bits, at once where they lie so. By instructions: of stores of both cases the compiler makes one by one.
inline void store_eight(uint16_t* to, int64_t i, const Fragment& eight) {
  if (is_aligned<16>(to + i)) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(to + i), "r"(eight.at[0]), "r"(eight.at[1]), "r"(eight.at[2]),
                   "r"(eight.at[3])
                 : "memory");
    return;
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    asm volatile("st.global.b16 [%0], %1;"
                 :
                 : "l"(to + i + j), "h"(uint16_t(eight.at[j / 2] >> (16 * (j % 2))))
                 : "memory");
  }
}

// A barrier in shared memory: its phase ends when `count` have arrived, and the next one begins.
inline void init_phases(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
inline void arrive(uint32_t barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(barrier)
               : "memory");
}
// Until phase `number` of the barrier, counted from 0, has ended; it is the one that runs or the one before.
inline void wait_for_phase(uint32_t barrier, uint32_t number) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, "
        "1, "
        "0, done; }"
        : "=r"(done)
        : "r"(barrier), "r"(number & 1U)
        : "memory");
  }
}

// How many registers each thread of the warp group has from now on.
template <int registers>
void need_fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
void need_more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
inline float larger(float x, float y) { return fmaxf(x, y); }

#else
}  // namespace mstrain::cuda
#include "core/backends/cuda/emulator/warp_group_on_cpu.h"
namespace mstrain::cuda {
#endif

}  // namespace mstrain::cuda
