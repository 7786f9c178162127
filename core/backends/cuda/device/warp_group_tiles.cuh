// What attention by the warp groups of sm_90a is made of (attention_warp_groups.cuh, attention_gradient_warp_groups.cuh). Of a block
// the first warp group brings tiles into shared memory, ahead, as far as there is room; the others have 64 rows each of what the
// kernel computes. A block takes several pieces of work: the next one's tiles come while it ends one.
//
// P is what attention_shape.cuh says, with kDim 64 or 128 and kScale > 0.
#pragma once

#include "core/backends/cuda/device/attention_shape.cuh"
#include "core/backends/cuda/device/warp_group.cuh"

namespace mstrain::cuda {

// A ring of tiles in shared memory: slot i is filled for the n-th time when phase n of full(i) ends, and may be filled again when
// phase n of empty(i) has ended.
template <int slots>
struct Ring {
  uint32_t barriers;
  int slot = 0;
  uint32_t round = 0;

  uint32_t full() const { return barriers + uint32_t(16 * slot); }
  uint32_t empty() const { return barriers + uint32_t(16 * slot + 8); }
  void wait_until_full() const { wait_for_phase(full(), round); }
  void wait_until_empty() const { wait_for_phase(empty(), round - 1); }
  void step() {
    if (++slot == slots) {
      slot = 0;
      ++round;
    }
  }
  // Of those that use it one of each warp says so.
  static constexpr int kBytes = 16 * slots;
  void init(int groups) const {
    for (uint32_t i = 0; i < slots; ++i) {
      init_phases(barriers + 16 * i, kWarpGroup);
      init_phases(barriers + 16 * i + 8, 4 * groups);
    }
  }
};

// Fills slots, two at a time on their way: of one it says that it is full before it waits for the next but one to be empty. So
// who uses them must be able to empty a slot once the second after it is full.
class Filler {
 public:
  // f(number of the slot) begins to bring what goes there.
  template <int slots, class F>
  void fill(Ring<slots>& ring, const F& f) {
    end<1>(on_way_[0]);
    ring.wait_until_empty();
    f(ring.slot);
    end_group();
    on_way_[0] = on_way_[1];
    on_way_[1] = ring.full();
    ring.step();
  }
  void finish() {
    end<0>(on_way_[0]);
    end<0>(on_way_[1]);
    on_way_[0] = on_way_[1] = 0;
  }

 private:
  template <int left>
  static void end(uint32_t full) {
    if (full != 0) {
      finish_copies<left>();
      show_to_products();
      arrive(full);
    }
  }

  uint32_t on_way_[2] = {0, 0};  // their barriers
};

template <class P>
struct WarpGroupTiles : AttentionShape<P> {
  using Base = AttentionShape<P>;
  using Base::kDim;
  using Base::kParts;
  using Base::kSteps;
  using Base::lane;
  using typename Base::Format;
  using typename Base::Range;
  using typename Base::Stored;

  static int group() { return static_cast<int>(threadIdx.x) / kWarpGroup; }
  static int thread() { return static_cast<int>(threadIdx.x) % kWarpGroup; }
  // The thread's first row of those that the groups compute; the other one is 8 further on.
  static int own_row() { return (group() - 1) * 64 + thread() / kWarp * 16 + lane() / 4; }

  // f(first row, head, b) for the tiles of `count` rows that are this block's: pairs of the two that see most and least.
  template <int count, int64_t rows, int64_t heads, class F>
  static void for_work(const F& f) {
    constexpr int kTiles = int((rows + count - 1) / count), kPairs = (kTiles + 1) / 2;
    for (int64_t item = blockIdx.x; item < P::kBatch * heads * kPairs; item += gridDim.x) {
      const int low = int(item % kPairs), high = kTiles - 1 - low;
      const int64_t head = item / kPairs % heads, b = item / kPairs / heads;
      for (int side = 0; side < (low == high ? 1 : 2); ++side) {
        f((side == 0 ? high : low) * count, head, b);
      }
    }
  }
  // Tiles of `count` keys that some of `rows` queries from `first` on see.
  template <int count>
  static Range tiles_of_keys(int first, int rows) {
    const Range seen = Base::keys_of(first, rows);
    return {seen.begin / count, (seen.end + count - 1) / count};
  }

  // Begins to bring rows [first, first + count) of a matrix into tiles, zeros beyond its end. Number by number where they lie so.
  template <int count, int64_t step, int64_t stride, int64_t rows, class From, class To>
  static void fill(const From& from, int64_t base, int first, const To& to) {
    if (step == 1 && stride % 8 == 0 && lies_on_16_bytes(from, base)) {
      constexpr int kEights = kDim / 8, kAtOnce = kWarpGroup / kEights;
      const int row = thread() / kEights, column = thread() % kEights * 8;
      const int64_t source = base + (first + row) * stride + column;
      const int place = swizzled(count, row, column);
      static_assert(kAtOnce % 8 == 0, "the swizzle is the same for all rows of a thread");
#pragma unroll
      for (int i = 0; i < count; i += kAtOnce) {
        begin_copy_or_zeros(to, place + i * kRowOfTile, from, source + i * stride,
                            rows % count == 0 || first + row + i < rows);
      }
      return;
    }
#pragma unroll 1
    for (int i = thread(); i < count * kDim; i += kWarpGroup) {
      const int row = i / kDim, column = i % kDim;
      to[swizzled(count, row, column)] =
          first + row < rows ? Stored(from[base + (first + row) * stride + column * step])
                             : Stored(0);
    }
  }
  template <int count, class From, class To>
  static void fill_queries(const From& q, int64_t b, int64_t h, int first, const To& to) {
    fill<count, P::kQD, P::kQT, P::kQueries>(q, b * P::kQB + h * P::kQH, first, to);
  }
  template <int count, class From, class To>
  static void fill_gradients(const From& g, int64_t b, int64_t h, int first, const To& to) {
    fill<count, P::kGD, P::kGT, P::kQueries>(g, b * P::kGB + h * P::kGH, first, to);
  }
  template <int count, class From, class To>
  static void fill_keys(const From& k, int64_t b, int64_t head, int first, const To& to) {
    fill<count, P::kKD, P::kKT, P::kKeys>(k, b * P::kKB + head * P::kKH, first, to);
  }
  template <int count, class From, class To>
  static void fill_values(const From& v, int64_t b, int64_t head, int first, const To& to) {
    fill<count, P::kVD, P::kVT, P::kKeys>(v, b * P::kVB + head * P::kVH, first, to);
  }

  // c[64, tile] = a[64, kDim] times the transpose of a tile, both in shared memory.
  template <int parts>
  static void times_rows(float (&c)[parts][4], uint32_t a, int rows_of_a, uint32_t tile) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      multiply<Format, false, false>(c, operand_along(a, rows_of_a, step),
                                     operand_along(tile, parts * 8, step), step > 0);
    }
  }
  // c[64, kDim] += a[64, 16 steps] times a tile.
  template <int steps>
  static void add_times_tile(float (&c)[kParts][4], const Fragment (&a)[steps], uint32_t tile) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      multiply<Format, true>(c, a[step], operand_across(tile, steps * 16, step), true);
    }
  }
  // The sums of products as operand of the next.
  template <int steps>
  static void pack(Fragment (&to)[steps], const float (&x)[2 * steps][4]) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* two = &x[2 * step + i / 2][i % 2 * 2];
        to[step].at[i] = packed<Format>(two[0], two[1]);
      }
    }
  }
  // One of each warp arrives, whose products have all ended.
  static void release(uint32_t barrier) {
    if (lane() == 0) {
      arrive(barrier);
    }
  }
  // Of four threads side by side thread i gets what they have in words[i].
  static void turn_quad(uint32_t (&words)[4]) {
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2) {
      const bool high = (lane() & mask) != 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & mask) == 0) {
          uint32_t &low_word = words[i], &high_word = words[i + mask];
          const uint32_t other = __shfl_xor_sync(0xffffffffU, high ? low_word : high_word, mask);
          low_word = high ? other : low_word;
          high_word = high ? high_word : other;
        }
      }
    }
  }

  // Rows of c by `scale`, as 16-bit numbers, eight together.
  template <class To>
  static void store_rows(const To& to, int64_t base, int64_t stride, int first, int rows,
                         const float (&c)[kParts][4], float scale_low, float scale_high) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + lane() / 4 + half * 8;
      const float scale = half == 0 ? scale_low : scale_high;
#pragma unroll
      for (int part = 0; part < kParts; part += 4) {
        Fragment eight;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* const two = &c[part + i][2 * half];
          eight.at[i] = packed<Format>(two[0] * scale, two[1] * scale);
        }
        turn_quad(eight.at);
        if (row < rows) {
          store_eight(to, base + row * stride + (part + lane() % 4) * 8, eight);
        }
      }
    }
  }
};

}  // namespace mstrain::cuda
