// Attention with running softmax (Dao 2023, FlashAttention-2) by products of warps. No score is ever written to memory, and every sum has
// one order.
#pragma once

#include "core/backends/cuda/device/attention_tiles.cuh"

namespace mstrain::cuda {

template <class P>
struct Attention : AttentionTiles<P> {
  using Base = AttentionTiles<P>;
  using Base::kHeldDistances;
  using Base::kParts;
  using Base::kSteps;
  using Base::kTileParts;
  using Base::kTileSize;
  using Base::lane;
  using Base::warp;
  using typename Base::Beside;
  using typename Base::Scores;
  using typename Base::Stored;

  // (out[b, t, h, d], lse[b, h, t]) of block `block`.
  template <class Q, class K, class V, class Out, class Lse>
  static void forward(int64_t block, const Beside& beside, const Q& q, const K& k, const V& v,
                      const Out& out, const Lse& lse) {
    MSTRAIN_SHARED(Stored, keys, 2 * kTileSize);
    MSTRAIN_SHARED(Stored, values, 2 * kTileSize);
    MSTRAIN_SHARED(float, distances, kHeldDistances);
    const auto [first, h, b] = Base::queries_of_block(block);
    const int own = first + warp() * 16, g = lane() / 4, t = lane() % 4;
    Fragment queries[kSteps];
    Base::template load_rows<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, own, int(P::kQueries), queries);
    float sum[kParts][4] = {};
    float top[2] = {-std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()};
    float total[2] = {0, 0};
    Scores scores(beside, b, h, distances);
    Base::for_keys(first, scores, k, v, keys + 0, values + 0, [&](int from, const auto& own_keys, const auto& own_values) {
      float score[kTileParts][4];
      Base::times_rows(score, queries, own_keys);
      float most[2] = {top[0], top[1]};
      const bool whole = scores.whole(own, from);
#pragma unroll
      for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = own + g + (i / 2) * 8, key = from + part * 8 + t * 2 + i % 2;
          score[part][i] = whole || scores.seen(row, key) ? scores.logit(score[part][i], row, key)
                                                          : -std::numeric_limits<float>::infinity();
          most[i / 2] = score[part][i] > most[i / 2] ? score[part][i] : most[i / 2];
        }
      }
      float shrink[2];
      for (int r = 0; r < 2; ++r) {
        most[r] = Base::of_quad(most[r], false);
        // A query that has seen nothing yet keeps its nothing.
        const float base = most[r] == -std::numeric_limits<float>::infinity() ? 0.0F : most[r];
        shrink[r] = fast_exp2(top[r] - base);
        top[r] = most[r];
        most[r] = base;
        total[r] *= shrink[r];
      }
#pragma unroll
      for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          score[part][i] = fast_exp2(score[part][i] - most[i / 2]);
          total[i / 2] += score[part][i];
          if constexpr (P::kDropped) {
            score[part][i] *= scores.kept(own + g + (i / 2) * 8, from + part * 8 + t * 2 + i % 2);
          }
        }
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[part][i] *= shrink[i / 2];
        }
      }
      Base::add_times_tile(sum, score, own_values);
    });
    float inverse[2];
    for (int r = 0; r < 2; ++r) {
      total[r] = Base::of_quad(total[r], true);
      inverse[r] = total[r] == 0.0F ? 0.0F : 1.0F / total[r];
      const int row = own + g + r * 8;
      if (t == 0 && row < int(P::kQueries)) {
        lse[(b * P::kHeads + h) * P::kQueries + row] =
            total[r] == 0.0F ? -std::numeric_limits<float>::infinity()
                             : top[r] / kLog2E + scalar::log(total[r]);
      }
    }
    Base::store_rows(out, b * P::kOB + h * P::kOH, P::kOT, own, int(P::kQueries), sum, inverse[0],
               inverse[1]);
  }
};

}  // namespace mstrain::cuda
