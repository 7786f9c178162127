// Attention in tiles with running softmax by the warp groups of sm_90a (Shah et al. 2024, FlashAttention-3). A group makes the scores
// of a tile while the probabilities of the one before are multiplied, and its exponentials run under another's products.
#pragma once

#include "core/backends/cuda/device/warp_group_tiles.cuh"

namespace mstrain::cuda {

template <class P>
struct WarpGroupAttention : WarpGroupTiles<P> {
  using Base = WarpGroupTiles<P>;
  using Base::add_times_tile;
  using Base::end_key;
  using Base::first_key;
  using Base::group;
  using Base::kDim;
  using Base::kParts;
  using Base::lane;
  using Base::release;
  using Base::times_rows;
  using typename Base::Stored;

  // That compute: three where there is so much to do that the last, part of a tile, is little of it.
  static constexpr int kGroups = kDim == 64 && P::kQueries >= 4096 ? 3 : 2;
  static constexpr int kThreads = (kGroups + 1) * kWarpGroup;
  static constexpr int kRows = kGroups * 64;
  static constexpr int kTile = 128;  // keys
  static constexpr int kTileParts = kTile / 8;
  static constexpr int kTileSteps = kTile / 16;
  static constexpr int kTileSize = kTile * kDim;
  static constexpr int kSlots = kDim == 64 ? 6 : 4;
  static constexpr int kElements = 2 * kRows * kDim + kSlots * kTileSize;  // in shared memory
  static constexpr int kSharedBytes = kElements * 2 + Ring<kSlots>::kBytes + Ring<2>::kBytes;

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
            score[part][i] = Base::sees(own + i / 2 * 8, key)
                                 ? score[part][i]
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
  static void forward(const Q& q, const K& k, const V& v, const Out& out, const Lse& lse) {
    MSTRAIN_SHARED_BLOCK(Stored, shared, kSharedBytes);
    const auto queries = shared, tiles = shared + 2 * kRows * kDim;
    const uint32_t barriers = address_of(shared) + 2 * kElements;
    Ring<kSlots> ring{barriers};
    Ring<2> query_ring{barriers + Ring<kSlots>::kBytes};
    if (threadIdx.x == 0) {
      ring.init(kGroups);
      query_ring.init(kGroups);
    }
    __syncthreads();
    if (group() == 0) {
      need_fewer_registers<kGroups == 3 ? 32 : 40>();
      Filler filler;
      Base::template for_work<kRows, P::kQueries, P::kHeads>([&](int first, int64_t h, int64_t b) {
        const auto seen = Base::template tiles_of_keys<kTile>(first, kRows);
        for (int tile = seen.end - 1; tile >= seen.begin; --tile) {
          if (tile == seen.end - 1) {
            filler.fill(query_ring, [&](int slot) {
              Base::template fill_queries<kRows>(q, b, h, first, queries + slot * kRows * kDim);
            });
          }
          filler.fill(ring, [&](int slot) {
            Base::template fill_keys<kTile>(k, b, h / P::kGroup, tile * kTile,
                                            tiles + slot * kTileSize);
          });
          filler.fill(ring, [&](int slot) {
            Base::template fill_values<kTile>(v, b, h / P::kGroup, tile * kTile,
                                              tiles + slot * kTileSize);
          });
        }
      });
      filler.finish();
      return;
    }
    need_more_registers<kGroups == 3 ? 160 : 232>();
    const auto own_queries = [&] {
      return address_of(queries) +
             uint32_t((query_ring.slot * kRows * kDim + (group() - 1) * 64 * kRowOfTile) * 2);
    };
    const auto address = [&](int slot) {
      return address_of(tiles) + uint32_t(slot * kTileSize * 2);
    };
    Base::template for_work<kRows, P::kQueries, P::kHeads>([&](int first, int64_t h, int64_t b) {
      const auto seen = Base::template tiles_of_keys<kTile>(first, kRows);
      const int own = first + Base::own_row();
      float sum[kParts][4] = {};
      Softmax softmax;
      if (seen.begin < seen.end) {
        float score[kTileParts][4], shrink[2];
        Fragment weights[kTileSteps];
        query_ring.wait_until_full();
        ring.wait_until_full();
        begin_products(score);
        times_rows(score, own_queries(), kRows, address(ring.slot));
        end_products();
        finish_products<0>(score);
        release(ring.empty());
        ring.step();
        softmax.take(score, own, (seen.end - 1) * kTile, shrink);
        Base::pack(weights, score);
        for (int tile = seen.end - 2; tile >= seen.begin; --tile) {
          const auto values = ring;
          ring.step();
          ring.wait_until_full();
          values.wait_until_full();
          begin_products(score, sum, weights);
          times_rows(score, own_queries(), kRows, address(ring.slot));
          end_products();
          add_times_tile(sum, weights, address(values.slot));
          end_products();
          finish_products<1>(score);
          release(ring.empty());
          ring.step();
          softmax.take(score, own, tile * kTile, shrink);
          hold(score);
          compute_now(softmax.total[0] + softmax.total[1]);
          finish_products<0>(sum, weights);
          release(values.empty());
          Base::pack(weights, score);
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
      Base::store_rows(out, b * P::kOB + h * P::kOH, P::kOT, own - lane() / 4, int(P::kQueries),
                       sum, inverse[0], inverse[1]);
    });
  }
};

}  // namespace mstrain::cuda
