// Gradients of what is added to the scores of attention: of a bias of every score, and of biases by distance. Scores are made again, a
// block of queries by a tile of keys, for every sample and head that shares a bias, in their order.
#pragma once

#include "core/backends/cuda/device/attention_gradient.cuh"

namespace mstrain::cuda {

template <class P>
struct AttentionBias : AttentionGradient<P> {
  using Base = AttentionGradient<P>;
  using typename Base::Beside;
  using typename Base::Format;
  using typename Base::Scores;
  using typename Base::Stored;
  using Base::blocks_of_queries;
  using Base::kDistances;
  using Base::kHeldDistances;
  using Base::kSteps;
  using Base::kTile;
  using Base::kTileParts;
  using Base::kTileSize;
  using Base::lane;
  using Base::warp;

  // use(place, gradients) for each sample and head of [b, end_b) x [h, end_h): the gradients of the scores of
  // a block of queries and a tile of keys, a warp's 16 rows of them.
  template <class G, class Q, class K, class V, class Lse, class Delta, class Use>
  static void for_score_gradients(int first, int from, int64_t b, int64_t end_b, int64_t h,
                                  int64_t end_h, const Beside& beside, const G& gradient,
                                  const Q& q, const K& k, const V& v, const Lse& lse,
                                  const Delta& delta, const Use& use) {
    MSTRAIN_SHARED(Stored, keys, kTileSize);
    MSTRAIN_SHARED(Stored, values, kTileSize);
    MSTRAIN_SHARED(float, distances, kHeldDistances);
    const int own = first + warp() * 16;
    const int64_t begin_h = h;
    for (; b < end_b; ++b) {
      for (h = begin_h; h < end_h; ++h) {
        Scores scores(beside, b, h, distances);
        scores.fill(first, kRowsOfBlock, from, kTile, 0);
        scores.choose(first, kRowsOfBlock, from, 0);
        Base::template load_tile<P::kKD>(k, b * P::kKB + h / P::kGroup * P::kKH, P::kKT, from, int(P::kKeys),
                          keys);
        Base::template load_tile<P::kVD>(v, b * P::kVB + h / P::kGroup * P::kVH, P::kVT, from, int(P::kKeys),
                          values);
        end_group();
        Fragment queries[kSteps], gradients[kSteps];
        Base::template load_rows<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, own, int(P::kQueries), queries);
        Base::template load_rows<P::kGD>(gradient, b * P::kGB + h * P::kGH, P::kGT, own, int(P::kQueries),
                          gradients);
        float of_lse[2], of_delta[2];
        Base::load_row_terms(lse, delta, (b * P::kHeads + h) * P::kQueries, own, of_lse, of_delta);
        finish_copies<0>();
        __syncthreads();
        float score[kTileParts][4];
        Base::score_gradients(score, scores, queries, gradients, keys, values, of_lse, of_delta, own,
                        from);
        use(scores.place, score);
        __syncthreads();
      }
    }
  }

  static constexpr int64_t tiles_of_keys() { return (P::kKeys + kTile - 1) / kTile; }
  static constexpr int64_t tiles_of_scores() { return blocks_of_queries() * tiles_of_keys(); }

  // A block of queries by a tile of keys of dbias[1 | b, 1 | h, t, s]: of one that samples or heads share the sum over them.
  template <class G, class Q, class K, class V, class Lse, class Delta, class To>
  static void bias_gradient(int64_t block, const Beside& beside, const G& gradient, const Q& q,
                            const K& k, const V& v, const Lse& lse, const Delta& delta,
                            const To& to) {
    const int first = int(block % tiles_of_scores() / tiles_of_keys()) * kRowsOfBlock;
    const int from = int(block % tiles_of_keys()) * kTile;
    const int64_t of = block / tiles_of_scores(), h = of % P::kBiasHeads, b = of / P::kBiasHeads;
    float sum[kTileParts][4] = {};
    for_score_gradients(first, from, b, P::kBiasBatch == 1 ? P::kBatch : b + 1, h,
                        P::kBiasHeads == 1 ? P::kHeads : h + 1, beside, gradient, q, k, v, lse,
                        delta, [&](int, const float(&score)[kTileParts][4]) {
                          for (int part = 0; part < kTileParts; ++part) {
                            for (int i = 0; i < 4; ++i) {
                              sum[part][i] += score[part][i];
                            }
                          }
                        });
    for (int part = 0; part < kTileParts; ++part) {
      for (int i = 0; i < 4; ++i) {
        const int row = first + warp() * 16 + lane() / 4 + (i / 2) * 8;
        const int key = from + part * 8 + lane() % 4 * 2 + i % 2;
        if (row < int(P::kQueries) && key < int(P::kKeys)) {
          to[(of * P::kQueries + row) * P::kKeys + key] = Format::store(sum[part][i]);
        }
      }
    }
  }

  // What a block of queries by a tile of keys adds to the gradients of the biases by distance: partial[1 | b, h, tile, bucket]. Each
  // diagonal has one distance; threads add up diagonals, then buckets their diagonals.
  template <class G, class Q, class K, class V, class Lse, class Delta, class To>
  static void distance_gradient(int64_t block, const Beside& beside, const G& gradient, const Q& q,
                                const K& k, const V& v, const Lse& lse, const Delta& delta,
                                const To& partial) {
    constexpr int kRowPitch = kTile + 1;
    MSTRAIN_SHARED(float, of_score, kRowsOfBlock * kRowPitch);
    MSTRAIN_SHARED(float, of_diagonal, kDistances);
    const int first = int(block % tiles_of_scores() / tiles_of_keys()) * kRowsOfBlock;
    const int from = int(block % tiles_of_keys()) * kTile;
    const int64_t of = block / tiles_of_scores(), h = of % P::kHeads, b = of / P::kHeads;
    const int thread = static_cast<int>(threadIdx.x);
    bool is_first = true;
    for_score_gradients(
        first, from, b, P::kTables == 1 ? P::kBatch : b + 1, h, h + 1, beside, gradient, q, k, v,
        lse, delta, [&](int place, const float(&score)[kTileParts][4]) {
          for (int part = 0; part < kTileParts; ++part) {
            for (int i = 0; i < 4; ++i) {
              of_score[(warp() * 16 + lane() / 4 + (i / 2) * 8) * kRowPitch + part * 8 +
                       lane() % 4 * 2 + i % 2] = score[part][i];
            }
          }
          __syncthreads();
          for (int i = thread; i < kDistances - 1; i += kAttentionThreads) {
            float sum = 0;
            for (int row = 0; row < kRowsOfBlock; ++row) {
              const int key = i + row - (kRowsOfBlock - 1);
              if (key >= 0 && key < kTile) {
                sum += of_score[row * kRowPitch + key];
              }
            }
            of_diagonal[i] = sum;
          }
          __syncthreads();
          for (int bucket = thread; bucket < P::kBuckets; bucket += kAttentionThreads) {
            float sum = 0;
            for (int i = 0; i < kDistances - 1; ++i) {
              if (P::bucket_of(from - (first + kRowsOfBlock - 1) + i - place) == bucket) {
                sum += of_diagonal[i];
              }
            }
            const int64_t to = block * P::kBuckets + bucket;
            partial[to] = is_first ? sum : float(partial[to]) + sum;
          }
          is_first = false;
        });
  }
  // dtable[1 | b, bucket, h], of which a warp has number `i`.
  template <class Partial, class To>
  static void add_distance_gradients(int64_t i, const Partial& partial, const To& to) {
    const int64_t h = i % P::kHeads, bucket = i / P::kHeads % P::kBuckets,
                  b = i / P::kHeads / P::kBuckets;
    float sum = 0;
    for (int64_t tile = lane(); tile < tiles_of_scores(); tile += kWarp) {
      sum += partial[((b * P::kHeads + h) * tiles_of_scores() + tile) * P::kBuckets + bucket];
    }
    for (int mask = kWarp / 2; mask > 0; mask /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, mask);
    }
    if (lane() == 0) {
      to[i] = Format::store(sum);
    }
  }
};

}  // namespace mstrain::cuda
