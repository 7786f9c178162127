// The gradients of attention by products of warps: one kernel for queries, and one for keys and values, each with the scores anew.
#pragma once

#include "core/backends/cuda/device/attention_tiles.cuh"

namespace mstrain::cuda {

template <class P>
struct AttentionGradient : AttentionTiles<P> {
  using Base = AttentionTiles<P>;
  using Base::blocks_of_keys;
  using Base::end_key;
  using Base::first_key;
  using Base::kDim;
  using Base::kHeldDistances;
  using Base::kKeyHeads;
  using Base::kParts;
  using Base::kSteps;
  using Base::kTile;
  using Base::kTileParts;
  using Base::kTileSize;
  using Base::lane;
  using Base::warp;
  using typename Base::Beside;
  using typename Base::Scores;
  using typename Base::Stored;

  // The logsumexp of a row times log2(e); 0 where nothing is visible, so that all probabilities are.
  template <class Lse>
  static float exponent_of(const Lse& lse, int64_t row) {
    const float x = lse[row];
    return x == -std::numeric_limits<float>::infinity() ? 0.0F : x * kLog2E;
  }

  // The gradients of the scores [16, kTile] of the warp's rows and a tile of keys.
  template <class Tile>
  static void score_gradients(float (&score)[kTileParts][4], const Scores& scores,
                              const Fragment (&queries)[kSteps],
                              const Fragment (&gradients)[kSteps], Tile& keys, Tile& values,
                              const float (&of_lse)[2], const float (&of_delta)[2], int own,
                              int from) {
    const int g = lane() / 4, t = lane() % 4;
    float of_value[kTileParts][4];
    Base::times_rows(score, queries, keys);
    Base::times_rows(of_value, gradients, values);
    const bool whole = scores.whole(own, from);
#pragma unroll
    for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = own + g + (i / 2) * 8, key = from + part * 8 + t * 2 + i % 2;
        const bool seen = whole || (row < int(P::kQueries) && scores.seen(row, key));
        const float p =
            seen ? fast_exp2(scores.logit(score[part][i], row, key) - of_lse[i / 2]) : 0.0F;
        score[part][i] =
            seen ? p * (of_value[part][i] * scores.kept(row, key) - of_delta[i / 2]) : 0.0F;
      }
    }
  }
  // Of rows own + g and own + g + 8.
  template <class Lse, class Delta>
  static void load_row_terms(const Lse& lse, const Delta& delta, int64_t rows, int own,
                             float (&of_lse)[2], float (&of_delta)[2]) {
    for (int r = 0; r < 2; ++r) {
      const int row = own + lane() / 4 + r * 8;
      const bool is_row = row < int(P::kQueries);
      of_lse[r] = is_row ? exponent_of(lse, rows + row) : 0.0F;
      of_delta[r] = is_row ? float(delta[rows + row]) : 0.0F;
    }
  }

  // dq[b, t, h, d] of block `block` of queries.
  template <class G, class Q, class K, class V, class Lse, class Delta, class DQ>
  static void query_gradient(int64_t block, const Beside& beside, const G& gradient, const Q& q,
                             const K& k, const V& v, const Lse& lse, const Delta& delta,
                             const DQ& dq) {
    MSTRAIN_SHARED(Stored, keys, 2 * kTileSize);
    MSTRAIN_SHARED(Stored, values, 2 * kTileSize);
    MSTRAIN_SHARED(float, distances, kHeldDistances);
    const auto [first, h, b] = Base::queries_of_block(block);
    const int own = first + warp() * 16;
    Fragment queries[kSteps], gradients[kSteps];
    Base::template load_rows<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, own, int(P::kQueries), queries);
    Base::template load_rows<P::kGD>(gradient, b * P::kGB + h * P::kGH, P::kGT, own, int(P::kQueries), gradients);
    float of_lse[2], of_delta[2];
    load_row_terms(lse, delta, (b * P::kHeads + h) * P::kQueries, own, of_lse, of_delta);
    float sum[kParts][4] = {};
    Scores scores(beside, b, h, distances);
    Base::for_keys(first, scores, k, v, keys + 0, values + 0, [&](int from, const auto& own_keys, const auto& own_values) {
      float score[kTileParts][4];
      score_gradients(score, scores, queries, gradients, own_keys, own_values, of_lse, of_delta,
                      own, from);
      Base::add_times_tile(sum, score, own_keys);
    });
    Base::store_rows(dq, ((b * P::kQueries) * P::kHeads + h) * kDim, P::kHeads * kDim, own,
               int(P::kQueries), sum, P::kScale, P::kScale);
  }

  // (dk, dv)[b, s, g, d] of block `block` of keys; sums over the query heads of a key head.
  template <class G, class Q, class K, class V, class Lse, class Delta, class DK, class DV>
  static void key_gradient(int64_t block, const Beside& beside, const G& gradient, const Q& q,
                           const K& k, const V& v, const Lse& lse, const Delta& delta, const DK& dk,
                           const DV& dv) {
    MSTRAIN_SHARED(Stored, queries, 2 * kTileSize);
    MSTRAIN_SHARED(Stored, gradients, 2 * kTileSize);
    MSTRAIN_SHARED(float, lse_of_row, 2 * kTile);
    MSTRAIN_SHARED(float, delta_of_row, 2 * kTile);
    MSTRAIN_SHARED(float, distances, kHeldDistances);
    const int first = int(block % blocks_of_keys()) * kRowsOfBlock;
    const int64_t head = block / blocks_of_keys() % kKeyHeads;
    const int64_t b = block / blocks_of_keys() / kKeyHeads;
    const int own = first + warp() * 16, g = lane() / 4, t = lane() % 4;
    Fragment keys[kSteps], values[kSteps];
    Base::template load_rows<P::kKD>(k, b * P::kKB + head * P::kKH, P::kKT, own, int(P::kKeys), keys);
    Base::template load_rows<P::kVD>(v, b * P::kVB + head * P::kVH, P::kVT, own, int(P::kKeys), values);
    float of_key[kParts][4] = {}, of_value[kParts][4] = {};
    const int place = beside.place_of(b);
    int begin = P::kCausal ? first - place : 0;
    begin = begin > 0 ? begin : 0;
    const int end = Base::end_query(first + kRowsOfBlock - 1, place);
    for (int64_t h = head * P::kGroup; h < (head + 1) * P::kGroup; ++h) {
      const int64_t rows = (b * P::kHeads + h) * P::kQueries;
      Scores scores(beside, b, h, distances);
      const auto fill = [&](int from, int half) {
        scores.fill(from, kTile, first, kRowsOfBlock, half);
        const auto to_queries = queries + half * kTileSize,
                   to_gradients = gradients + half * kTileSize;
        Base::template load_tile<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, from, int(P::kQueries), to_queries);
        Base::template load_tile<P::kGD>(gradient, b * P::kGB + h * P::kGH, P::kGT, from, int(P::kQueries),
                          to_gradients);
        if (const int row = static_cast<int>(threadIdx.x); row < kTile) {
          const bool is_row = from + row < int(P::kQueries);
          lse_of_row[half * kTile + row] = is_row ? exponent_of(lse, rows + from + row) : 0.0F;
          delta_of_row[half * kTile + row] = is_row ? float(delta[rows + from + row]) : 0.0F;
        }
      };
      Base::for_tiles(begin / kTile * kTile, end, fill, [&](int from, int half) {
        const auto own_queries = queries + half * kTileSize,
                   own_gradients = gradients + half * kTileSize;
        scores.choose(from, kTile, first, half);
        // Whether every key of the warp is seen by every query of the tile.
        const bool whole = !Beside::kHides && from + kTile <= int(P::kQueries) &&
                           own + 16 <= end_key(from, place) &&
                           own >= first_key(from + kTile - 1, place);
        float score[kTileParts][4], product[kTileParts][4];
        Base::times_rows(score, keys, own_queries);
        Base::times_rows(product, values, own_gradients);
#pragma unroll
        for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = own + g + (i / 2) * 8, row = from + part * 8 + t * 2 + i % 2;
            const bool seen =
                whole || (row < int(P::kQueries) && key < int(P::kKeys) && scores.seen(row, key));
            const int at = half * kTile + row - from;
            const float p =
                seen ? fast_exp2(scores.logit(score[part][i], row, key) - lse_of_row[at]) : 0.0F;
            const float kept = seen ? scores.kept(row, key) : 0.0F;
            score[part][i] = p * kept;
            product[part][i] = p * (product[part][i] * kept - delta_of_row[at]);
          }
        }
        Base::add_times_tile(of_value, score, own_gradients);
        Base::add_times_tile(of_key, product, own_queries);
      });
    }
    const int64_t base = ((b * P::kKeys) * kKeyHeads + head) * kDim;
    Base::store_rows(dk, base, kKeyHeads * kDim, own, int(P::kKeys), of_key, P::kScale, P::kScale);
    Base::store_rows(dv, base, kKeyHeads * kDim, own, int(P::kKeys), of_value, 1.0F, 1.0F);
  }
};

}  // namespace mstrain::cuda
