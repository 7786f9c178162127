// Attention in tiles with running softmax by the warp groups of sm_90a (Shah et al. 2024, FlashAttention-3). Of a block one warp
// group brings tiles into shared memory, ahead, as far as there is room; the others have 64 rows each of what the kernel computes.
// They make the scores of a tile while the probabilities of the one before are multiplied, and take turns, so that one's
// exponentials run under another's products. A block takes several pieces of work: the next one's tiles come while it ends one.
//
// P is what attention.cuh takes, with kDim 64 or 128 and kScale > 0.
#pragma once

#include "core/backends/cuda/device/attention.cuh"
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
  static constexpr int kBytes = 16 * slots;
  void init(int fillers, int users) const {
    for (uint32_t i = 0; i < slots; ++i) {
      init_phases(barriers + 16 * i, fillers);
      init_phases(barriers + 16 * i + 8, users);
    }
  }
};

template <class P>
struct WarpGroupAttention : Attention<P> {
  using Base = Attention<P>;
  using Base::end_key;
  using Base::first_key;
  using Base::kDim;
  using Base::kParts;
  using Base::kSteps;
  using Base::lane;
  using Base::sees;
  using typename Base::Format;
  using typename Base::Stored;

  static constexpr int kGroups = 2;  // that compute
  static constexpr int kThreads = (kGroups + 1) * kWarpGroup;
  static constexpr int kRows = kGroups * 64;
  static constexpr int kTile = 128;  // rows of tiles that come one after another
  static constexpr int kTileParts = kTile / 8;
  static constexpr int kTileSteps = kTile / 16;
  static constexpr int kTileSize = kTile * kDim;
  static constexpr int kSlots = kDim == 64 ? 6 : 4;
  static constexpr int kElements = kRows * kDim + kSlots * kTileSize;  // in shared memory
  static constexpr int kSharedBytes = kElements * 2 + Ring<kSlots>::kBytes + Ring<1>::kBytes;

  static int group() { return static_cast<int>(threadIdx.x) / kWarpGroup; }
  static int thread() { return static_cast<int>(threadIdx.x) % kWarpGroup; }

  // f(first query, h, b) for the tiles of queries that are this block's: pairs of one that sees many keys and one that sees few.
  static constexpr int kRowTiles = int((P::kQueries + kRows - 1) / kRows);
  static constexpr int kPairs = (kRowTiles + 1) / 2;
  template <class F>
  static void for_queries(int64_t batches, const F& f) {
    for (int64_t item = blockIdx.x; item < batches * P::kHeads * kPairs; item += gridDim.x) {
      const int few = int(item % kPairs), many = kRowTiles - 1 - few;
      const int64_t h = item / kPairs % P::kHeads, b = item / kPairs / P::kHeads;
      for (int side = 0; side < (few == many ? 1 : 2); ++side) {
        f((side == 0 ? many : few) * kRows, h, b);
      }
    }
  }
  // The tiles of keys that these queries see: [begin, end).
  struct Tiles {
    int begin, end;
    explicit Tiles(int first) {
      const int beyond = first + kRows < int(P::kQueries) ? first + kRows : int(P::kQueries);
      begin = first_key(first) / kTile;
      end = (end_key(beyond - 1) + kTile - 1) / kTile;
    }
  };

  // Begins to bring rows [first, first + count) of a matrix into tiles, zeros beyond its end, and arrives when they are there.
  template <int count, int64_t step, int64_t stride, int64_t rows, class From, class To>
  static void fill(const From& from, int64_t base, int first, To&& to, uint32_t full) {
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
      arrive_after_copies(full);
      return;
    }
#pragma unroll 1
    for (int i = thread(); i < count * kDim; i += kWarpGroup) {
      const int row = i / kDim, column = i % kDim;
      to[swizzled(count, row, column)] =
          first + row < rows ? Stored(from[base + (first + row) * stride + column * step])
                             : Stored(0);
    }
    show_to_products();
    arrive(full);
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
  // Groups begin their products in turns.
  static void wait_for_turn() { wait_at(group(), 2 * kWarpGroup); }
  static void pass_turn() { arrive_at(group() % kGroups + 1, 2 * kWarpGroup); }

  // Rows of c by `scale`, as 16-bit numbers.
  template <class To>
  static void store_rows(const To& to, int64_t base, int64_t stride, int first, int rows,
                         const float (&c)[kParts][4], float scale_low, float scale_high) {
    const int g = lane() / 4, t = lane() % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + g + half * 8;
      if (row < rows) {
        const float scale = half == 0 ? scale_low : scale_high;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const uint32_t two =
              packed<Format>(c[part][2 * half] * scale, c[part][2 * half + 1] * scale);
          store_pack(to, base + row * stride + part * 8 + t * 2,
                     Pack<Stored, 2>{{Stored(two), Stored(two >> 16U)}});
        }
      }
    }
  }

  // The scores of a tile as exponents of two, and what earlier sums shrink by. `own`: the thread's first query.
  struct Softmax {
    float top[2] = {-std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()};
    float total[2] = {0, 0};

    void take(float (&score)[kTileParts][4], int own, int from, float (&shrink)[2]) {
      const int first = own / 64 * 64;
      if (from + kTile > end_key(first) || from < first_key(first + 63)) {
#pragma unroll
        for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = from + part * 8 + lane() % 4 * 2 + i % 2;
            score[part][i] = sees(own + i / 2 * 8, key) ? score[part][i]
                                                        : -std::numeric_limits<float>::infinity();
          }
        }
      }
      constexpr float kFactor = P::kScale * kLog2E;
      float base[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = top[r];
#pragma unroll
        for (int part = 0; part < kTileParts; ++part) {
          most = larger(most, larger(score[part][2 * r], score[part][2 * r + 1]));
        }
        most = Base::of_quad(most, false);
        // A query that has seen nothing yet keeps its nothing.
        base[r] = most == -std::numeric_limits<float>::infinity() ? 0.0F : most * kFactor;
        shrink[r] = fast_exp2(top[r] * kFactor - base[r]);
        top[r] = most;
        total[r] *= shrink[r];
      }
#pragma unroll
      for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          score[part][i] = fast_exp2(score[part][i] * kFactor - base[i / 2]);
          total[i / 2] += score[part][i];
        }
      }
    }
  };

  // (out[b, t, h, d], lse[b, h, t]).
  template <class Q, class K, class V, class Out, class Lse>
  static void forward(int64_t batches, const Q& q, const K& k, const V& v, const Out& out,
                      const Lse& lse) {
    MSTRAIN_SHARED_BLOCK(Stored, shared, kSharedBytes);
    const auto queries = shared, tiles = shared + kRows * kDim;
    const uint32_t barriers = address_of(shared) + 2 * kElements;
    Ring<kSlots> ring{barriers};
    Ring<1> query_ring{barriers + Ring<kSlots>::kBytes};
    if (threadIdx.x == 0) {
      ring.init(kWarpGroup, 4 * kGroups);
      query_ring.init(kWarpGroup, 4 * kGroups);
    }
    __syncthreads();
    if (group() == 0) {
      need_fewer_registers<40>();
      for_queries(batches, [&](int first, int64_t h, int64_t b) {
        const Tiles seen(first);
        for (int tile = seen.end - 1; tile >= seen.begin; --tile) {
          if (tile == seen.end - 1) {
            query_ring.wait_until_empty();
            fill<kRows, P::kQD, P::kQT, P::kQueries>(q, b * P::kQB + h * P::kQH, first, queries,
                                                     query_ring.full());
            query_ring.step();
          }
          ring.wait_until_empty();
          fill<kTile, P::kKD, P::kKT, P::kKeys>(k, b * P::kKB + h / P::kGroup * P::kKH,
                                                tile * kTile, tiles + ring.slot * kTileSize,
                                                ring.full());
          ring.step();
          ring.wait_until_empty();
          fill<kTile, P::kVD, P::kVT, P::kKeys>(v, b * P::kVB + h / P::kGroup * P::kVH,
                                                tile * kTile, tiles + ring.slot * kTileSize,
                                                ring.full());
          ring.step();
        }
      });
      return;
    }
    need_more_registers<232>();
    if (group() == kGroups) {
      pass_turn();
    }
    const int in_block = (group() - 1) * 64 + thread() / kWarp * 16 + lane() / 4;
    const uint32_t own_queries = address_of(queries) + uint32_t((group() - 1) * 64 * 128);
    const auto address = [&](int slot) {
      return address_of(tiles) + uint32_t(slot * kTileSize * 2);
    };
    for_queries(batches, [&](int first, int64_t h, int64_t b) {
      const Tiles seen(first);
      const int own = first + in_block;
      float sum[kParts][4] = {};
      Softmax softmax;
      if (seen.begin < seen.end) {
        float score[kTileParts][4], shrink[2];
        Fragment weights[kTileSteps];
        query_ring.wait_until_full();
        ring.wait_until_full();
        show_to_products();
        wait_for_turn();
        begin_products(score);
        times_rows(score, own_queries, kRows, address(ring.slot));
        end_products();
        pass_turn();
        finish_products<0>(score);
        release(ring.empty());
        ring.step();
        softmax.take(score, own, (seen.end - 1) * kTile, shrink);
        pack(weights, score);
        for (int tile = seen.end - 2; tile >= seen.begin; --tile) {
          const auto values = ring;
          ring.step();
          ring.wait_until_full();
          values.wait_until_full();
          show_to_products();
          wait_for_turn();
          begin_products(score, sum, weights);
          times_rows(score, own_queries, kRows, address(ring.slot));
          end_products();
          add_times_tile(sum, weights, address(values.slot));
          end_products();
          pass_turn();
          finish_products<1>(score);
          release(ring.empty());
          ring.step();
          softmax.take(score, own, tile * kTile, shrink);
          hold(score);
          compute_now(softmax.total[0] + softmax.total[1]);
          finish_products<0>(sum, weights);
          release(values.empty());
          pack(weights, score);
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              sum[part][i] *= shrink[i / 2];
            }
          }
        }
        release(query_ring.empty());
        query_ring.step();
        ring.wait_until_full();
        show_to_products();
        begin_products(sum, weights);
        add_times_tile(sum, weights, address(ring.slot));
        end_products();
        finish_products<0>(sum, weights);
        release(ring.empty());
        ring.step();
      }
      float inverse[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float total = Base::of_quad(softmax.total[r], true);
        inverse[r] = total == 0.0F ? 0.0F : 1.0F / total;
        const int row = own + r * 8;
        if (lane() % 4 == 0 && row < int(P::kQueries)) {
          lse[(b * P::kHeads + h) * P::kQueries + row] =
              total == 0.0F ? -std::numeric_limits<float>::infinity()
                            : softmax.top[r] * P::kScale + scalar::log(total);
        }
      }
      store_rows(out, b * P::kOB + h * P::kOH, P::kOT, own - lane() / 4, int(P::kQueries), sum,
                 inverse[0], inverse[1]);
    });
  }
};

}  // namespace mstrain::cuda
