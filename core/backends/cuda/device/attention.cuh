// Attention in tiles with running softmax (Dao 2023, FlashAttention-2), forward and backward, by products of warps. A block is four
// warps; each has 16 rows of what its kernel computes. No score is ever written to memory, and every sum has one order.
//
// P says what is computed (attention_texts.cc): Format, kDim, kQueries, kKeys, kHeads, kGroup (query heads of a key head), kCausal,
// kWindow (0: none), kScale, strides in elements of q, k, v, g and out by b, t, h, d, and what attention_beside.cuh asks for.
#pragma once

#include "core/backends/cuda/device/attention_beside.cuh"
#include "core/backends/cuda/device/mma.cuh"

namespace mstrain::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kRowsOfBlock = 64;
inline constexpr float kLog2E = 1.4426950408889634F;

template <class P>
struct Attention {
  using Format = typename P::Format;
  using Stored = typename Format::Stored;
  static constexpr int kDim = P::kDim;
  static constexpr int kSteps = kDim / 16;            // of 16 summands over a vector
  static constexpr int kParts = kDim / 8;             // of 8 columns of one
  static constexpr int kTile = kDim <= 64 ? 64 : 32;  // rows in shared memory at a time
  static constexpr int kTileParts = kTile / 8;
  static constexpr int kTileSteps = kTile / 16;
  static constexpr int kPitch =
      kDim + 8;  // of a row in shared memory: no two rows on the same banks

  using Beside = AttentionBeside<P>;

  // Which keys query i sees, unless they are hidden: [first_key(i), end_key(i)). `place`: of the first query among the keys.
  static constexpr int kPlace = int(P::kKeys - P::kQueries);
  static int first_key(int i, int place = kPlace) {
    const int first = P::kWindow == 0 ? 0 : i + place - int(P::kWindow) + 1;
    return first > 0 ? first : 0;
  }
  static int end_key(int i, int place = kPlace) {
    const int end = P::kCausal ? i + place + 1 : int(P::kKeys);
    return end < int(P::kKeys) ? end : int(P::kKeys);
  }
  static bool sees(int i, int j, int place = kPlace) {
    return j >= first_key(i, place) && j < end_key(i, place);
  }

  // What is said beside q, k and v of the scores of kRowsOfBlock rows of one side and a tile of the other, of which there are two as
  // of tiles. A bias by distance lies in shared memory, one for each distance that there is.
  static constexpr int kDistances = kRowsOfBlock + kTile;
  static constexpr int kHeldDistances = P::kTabled ? 2 * kDistances : 1;
  struct Scores {
    const Beside& beside;
    int64_t b, h;
    int place;
    Global<float> biases;
    int nearest;  // what to add to a distance for its place

    Scores(const Beside& said, int64_t of_b, int64_t of_h, const Global<float>& held)
        : beside(said), b(of_b), h(of_h), place(said.place_of(of_b)), biases(held), nearest(0) {}

    // Of `rows` queries from `row` on and `keys` keys from `key` on; fill() first, by all threads, and a barrier.
    void choose(int row, int rows, int key, int half) {
      nearest = row + rows - 1 - key + half * kDistances;
    }
    void fill(int row, int rows, int key, int keys, int half) const {
      if constexpr (P::kTabled) {
        for (int i = static_cast<int>(threadIdx.x); i < rows + keys - 1; i += kAttentionThreads) {
          biases[half * kDistances + i] =
              beside.bias_by_distance(b, h, key - (row + rows - 1) + i - place);
        }
      }
    }
    bool seen(int row, int key) const {
      if constexpr (Beside::kHides) {
        return row < int(P::kQueries) && sees(row, key, place) && !beside.hides(b, row, key);
      } else {
        return sees(row, key, place);
      }
    }
    // The score times log2(e). Of queries beyond the last one: anything.
    float logit(float product, int row, int key) const {
      float x = product * (P::kScale * kLog2E);
      if constexpr (P::kTabled) {
        x += float(biases[key - row + nearest]) * kLog2E;
      }
      if constexpr (P::kBiased) {
        if (row < int(P::kQueries)) {
          x += beside.bias_at(b, h, row, key) * kLog2E;
        }
      }
      return x;
    }
    float kept(int row, int key) const {
      if constexpr (P::kDropped) {
        return beside.kept(b, h, row, key);
      } else {
        return 1.0F;
      }
    }
    // Whether 16 queries from `own` on see every key of the tile.
    bool whole(int own, int from) const {
      return !Beside::kHides && own + 16 <= int(P::kQueries) &&
             from + kTile <= end_key(own, place) && from >= first_key(own + 15, place);
    }
  };

  static constexpr int kTileSize =
      kTile * kPitch;  // of which there are two: one is read while the other is filled

  // f(begin, half) for tiles [begin, end) of kTile rows: `fill` brings a tile on its way to a half of the memory, `use` has it.
  template <class Fill, class Use>
  static void for_tiles(int begin, int end, const Fill& fill, const Use& use) {
    if (begin >= end) {
      return;
    }
    fill(begin, 0);
    end_group();
    int half = 0;
    for (int from = begin; from < end; from += kTile) {
      if (from + kTile < end) {
        fill(from + kTile, 1 - half);
      }
      end_group();
      finish_copies<1>();
      __syncthreads();
      use(from, half);
      __syncthreads();
      half = 1 - half;
    }
  }

  // Rows [first, first + kTile) of a matrix into shared memory; zeros beyond its end.
  template <int64_t step, class From, class To>
  static void load_tile(const From& from, int64_t base, int64_t stride, int first, int rows,
                        To& to) {
    if (step == 1 && stride % 8 == 0 && lies_on_16_bytes(from, base)) {
      constexpr int kEights = kDim / 8;
#pragma unroll
      for (int i = static_cast<int>(threadIdx.x); i < kTile * kEights; i += kAttentionThreads) {
        const int row = i / kEights, column = i % kEights * 8;
        if (first + row < rows) {
          begin_copy(to, row * kPitch + column, from, base + (first + row) * stride + column);
        } else {
          for (int k = 0; k < 8; ++k) {
            to[row * kPitch + column + k] = Stored(0);
          }
        }
      }
      return;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDim; i += kAttentionThreads) {
      const int row = i / kDim, column = i % kDim;
      to[row * kPitch + column] = first + row < rows
                                      ? Stored(from[base + (first + row) * stride + column * step])
                                      : Stored(0);
    }
  }

  // 16 rows from `first` on as the first operand of products.
  template <int64_t between, class From>
  static void load_rows(const From& from, int64_t base, int64_t stride, int first, int rows,
                        Fragment (&to)[kSteps]) {
    const int g = lane() / 4, t = lane() % 4;
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < 4; ++i) {
        const int row = first + g + (i % 2) * 8, column = step * 16 + t * 2 + (i / 2) * 8;
        uint32_t two = 0;
        if (row < rows) {
          const Stored low = from[base + row * stride + column * between];
          const Stored high = from[base + row * stride + (column + 1) * between];
          two = uint32_t(low) | uint32_t(high) << 16;
        }
        to[step].at[i] = two;
      }
    }
  }

  static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

  // c[16, kTile] = a[16, kDim] times the transpose of a tile.
  template <class Tile>
  static void times_rows(float (&c)[kTileParts][4], const Fragment (&a)[kSteps], Tile& tile) {
#pragma unroll
    for (int part = 0; part < kTileParts; part += 2) {
      for (int i = 0; i < 4; ++i) {
        c[part][i] = 0;
        c[part + 1][i] = 0;
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t b[4];
        load_matrices<false, kPitch>(
            b, tile, [&](int m) { return (part + m / 2) * 8; },
            [&](int m) { return step * 16 + m % 2 * 8; });
        multiply_add<Format>(c[part], a[step], b[0], b[1]);
        multiply_add<Format>(c[part + 1], a[step], b[2], b[3]);
      }
    }
  }
  // c[16, kDim] += x[16, kTile] times a tile.
  template <class Tile>
  static void add_times_tile(float (&c)[kParts][4], const float (&x)[kTileParts][4], Tile& tile) {
#pragma unroll
    for (int step = 0; step < kTileSteps; ++step) {
      const Fragment a{{packed<Format>(x[2 * step][0], x[2 * step][1]),
                        packed<Format>(x[2 * step][2], x[2 * step][3]),
                        packed<Format>(x[2 * step + 1][0], x[2 * step + 1][1]),
                        packed<Format>(x[2 * step + 1][2], x[2 * step + 1][3])}};
#pragma unroll
      for (int part = 0; part < kParts; part += 2) {
        uint32_t b[4];
        load_matrices<true, kPitch>(
            b, tile, [&](int m) { return step * 16 + m % 2 * 8; },
            [&](int m) { return (part + m / 2) * 8; });
        multiply_add<Format>(c[part], a, b[0], b[1]);
        multiply_add<Format>(c[part + 1], a, b[2], b[3]);
      }
    }
  }

  // Rows g and g + 8 of c, times `scale`, where they are rows of the matrix.
  template <class To>
  static void store_rows(const To& to, int64_t base, int64_t stride, int first, int rows,
                         const float (&c)[kParts][4], float scale_low, float scale_high) {
    const int g = lane() / 4, t = lane() % 4;
    for (int part = 0; part < kParts; ++part) {
      for (int i = 0; i < 4; ++i) {
        const int row = first + g + (i / 2) * 8;
        if (row < rows) {
          to[base + row * stride + part * 8 + t * 2 + i % 2] =
              Format::store(c[part][i] * (i < 2 ? scale_low : scale_high));
        }
      }
    }
  }
  static float of_quad(float x, bool sum) {
    for (int mask = 1; mask < 4; mask *= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, x, mask);
      x = sum ? x + other : (other > x ? other : x);
    }
    return x;
  }

  static constexpr int64_t blocks_of_queries() {
    return (P::kQueries + kRowsOfBlock - 1) / kRowsOfBlock;
  }
  static constexpr int64_t blocks_of_keys() { return (P::kKeys + kRowsOfBlock - 1) / kRowsOfBlock; }
  static constexpr int64_t kKeyHeads = P::kHeads / P::kGroup;

  // (out[b, t, h, d], lse[b, h, t]) of block `block`.
  template <class Q, class K, class V, class Out, class Lse>
  static void forward(int64_t block, const Beside& beside, const Q& q, const K& k, const V& v,
                      const Out& out, const Lse& lse) {
    MSTRAIN_SHARED(Stored, keys, 2 * kTileSize);
    MSTRAIN_SHARED(Stored, values, 2 * kTileSize);
    MSTRAIN_SHARED(float, distances, kHeldDistances);
    // The last queries, which see the most keys, first.
    const int first = int(blocks_of_queries() - 1 - block % blocks_of_queries()) * kRowsOfBlock;
    const int64_t h = block / blocks_of_queries() % P::kHeads;
    const int64_t b = block / blocks_of_queries() / P::kHeads;
    const int own = first + warp() * 16, g = lane() / 4, t = lane() % 4;
    Fragment queries[kSteps];
    load_rows<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, own, int(P::kQueries), queries);
    float sum[kParts][4] = {};
    float top[2] = {-std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()};
    float total[2] = {0, 0};
    const int last =
        first + kRowsOfBlock <= int(P::kQueries) ? first + kRowsOfBlock - 1 : int(P::kQueries) - 1;
    Scores scores(beside, b, h, distances);
    const auto fill = [&](int from, int half) {
      scores.fill(first, kRowsOfBlock, from, kTile, half);
      const auto to_keys = keys + half * kTileSize, to_values = values + half * kTileSize;
      load_tile<P::kKD>(k, b * P::kKB + h / P::kGroup * P::kKH, P::kKT, from, int(P::kKeys),
                        to_keys);
      load_tile<P::kVD>(v, b * P::kVB + h / P::kGroup * P::kVH, P::kVT, from, int(P::kKeys),
                        to_values);
    };
    const int begin = first_key(first, scores.place) / kTile * kTile;
    for_tiles(begin, end_key(last, scores.place), fill, [&](int from, int half) {
      scores.choose(first, kRowsOfBlock, from, half);
      const auto own_keys = keys + half * kTileSize, own_values = values + half * kTileSize;
      float score[kTileParts][4];
      times_rows(score, queries, own_keys);
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
        most[r] = of_quad(most[r], false);
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
      add_times_tile(sum, score, own_values);
    });
    float inverse[2];
    for (int r = 0; r < 2; ++r) {
      total[r] = of_quad(total[r], true);
      inverse[r] = total[r] == 0.0F ? 0.0F : 1.0F / total[r];
      const int row = own + g + r * 8;
      if (t == 0 && row < int(P::kQueries)) {
        lse[(b * P::kHeads + h) * P::kQueries + row] =
            total[r] == 0.0F ? -std::numeric_limits<float>::infinity()
                             : top[r] / kLog2E + scalar::log(total[r]);
      }
    }
    store_rows(out, b * P::kOB + h * P::kOH, P::kOT, own, int(P::kQueries), sum, inverse[0],
               inverse[1]);
  }

  // delta[b, h, t]: of each query the product of its result and that one's gradient, by threads that have eight numbers each. Of a
  // head a few queries are neighbours, and then those of the next, as all of it lies in memory.
  static constexpr int kLanesOfRow = kDim <= 16 ? 2 : kDim <= 32 ? 4 : kDim <= 64 ? 8 : 16;
  static constexpr int64_t kNeighbours = P::kQueries % 8 == 0 ? 8 : P::kQueries;
  template <class G, class Out, class Delta>
  static void products(int64_t block, const G& gradient, const Out& out, const Delta& delta) {
    const int64_t number =
        (block * kAttentionThreads + static_cast<int64_t>(threadIdx.x)) / kLanesOfRow;
    const int64_t few = number / kNeighbours, h = few % P::kHeads;
    constexpr int64_t kFew = P::kQueries / kNeighbours;
    const int64_t i = few / P::kHeads % kFew * kNeighbours + number % kNeighbours;
    const int64_t b = few / P::kHeads / kFew;
    const int column = static_cast<int>(threadIdx.x) % kLanesOfRow * 8;
    float sum = 0;
    if (b < P::kBatch && column < kDim) {
      const int64_t from = b * P::kGB + i * P::kGT + h * P::kGH + column * P::kGD;
      const int64_t of_out = b * P::kOB + i * P::kOT + h * P::kOH + column * P::kOD;
      if constexpr (P::kGD == 1 && P::kOD == 1) {
        const auto x = load_pack<8>(gradient, from), y = load_pack<8>(out, of_out);
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          sum += Format::load(x.at[c]) * Format::load(y.at[c]);
        }
      } else {
        for (int c = 0; c < 8; ++c) {
          sum += Format::load(gradient[from + c * P::kGD]) * Format::load(out[of_out + c * P::kOD]);
        }
      }
    }
    for (int mask = kLanesOfRow / 2; mask > 0; mask /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, mask);
    }
    if (b < P::kBatch && column == 0) {
      delta[(b * P::kHeads + h) * P::kQueries + i] = sum;
    }
  }

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
    times_rows(score, queries, keys);
    times_rows(of_value, gradients, values);
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
    const int first = int(blocks_of_queries() - 1 - block % blocks_of_queries()) * kRowsOfBlock;
    const int64_t h = block / blocks_of_queries() % P::kHeads;
    const int64_t b = block / blocks_of_queries() / P::kHeads;
    const int own = first + warp() * 16;
    Fragment queries[kSteps], gradients[kSteps];
    load_rows<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, own, int(P::kQueries), queries);
    load_rows<P::kGD>(gradient, b * P::kGB + h * P::kGH, P::kGT, own, int(P::kQueries), gradients);
    float of_lse[2], of_delta[2];
    load_row_terms(lse, delta, (b * P::kHeads + h) * P::kQueries, own, of_lse, of_delta);
    float sum[kParts][4] = {};
    const int last =
        first + kRowsOfBlock <= int(P::kQueries) ? first + kRowsOfBlock - 1 : int(P::kQueries) - 1;
    Scores scores(beside, b, h, distances);
    const auto fill = [&](int from, int half) {
      scores.fill(first, kRowsOfBlock, from, kTile, half);
      const auto to_keys = keys + half * kTileSize, to_values = values + half * kTileSize;
      load_tile<P::kKD>(k, b * P::kKB + h / P::kGroup * P::kKH, P::kKT, from, int(P::kKeys),
                        to_keys);
      load_tile<P::kVD>(v, b * P::kVB + h / P::kGroup * P::kVH, P::kVT, from, int(P::kKeys),
                        to_values);
    };
    const int begin = first_key(first, scores.place) / kTile * kTile;
    for_tiles(begin, end_key(last, scores.place), fill, [&](int from, int half) {
      scores.choose(first, kRowsOfBlock, from, half);
      const auto own_keys = keys + half * kTileSize, own_values = values + half * kTileSize;
      float score[kTileParts][4];
      score_gradients(score, scores, queries, gradients, own_keys, own_values, of_lse, of_delta,
                      own, from);
      add_times_tile(sum, score, own_keys);
    });
    store_rows(dq, ((b * P::kQueries) * P::kHeads + h) * kDim, P::kHeads * kDim, own,
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
    load_rows<P::kKD>(k, b * P::kKB + head * P::kKH, P::kKT, own, int(P::kKeys), keys);
    load_rows<P::kVD>(v, b * P::kVB + head * P::kVH, P::kVT, own, int(P::kKeys), values);
    float of_key[kParts][4] = {}, of_value[kParts][4] = {};
    // The first query that sees any of these keys, and the end of those that do.
    const int place = beside.place_of(b);
    int begin = P::kCausal ? first - place : 0;
    begin = begin > 0 ? begin : 0;
    int end = int(P::kQueries);
    if (P::kWindow > 0) {
      const int beyond = first + kRowsOfBlock - 1 - place + int(P::kWindow);
      end = beyond < end ? beyond : end;
    }
    for (int64_t h = head * P::kGroup; h < (head + 1) * P::kGroup; ++h) {
      const int64_t rows = (b * P::kHeads + h) * P::kQueries;
      Scores scores(beside, b, h, distances);
      const auto fill = [&](int from, int half) {
        scores.fill(from, kTile, first, kRowsOfBlock, half);
        const auto to_queries = queries + half * kTileSize,
                   to_gradients = gradients + half * kTileSize;
        load_tile<P::kQD>(q, b * P::kQB + h * P::kQH, P::kQT, from, int(P::kQueries), to_queries);
        load_tile<P::kGD>(gradient, b * P::kGB + h * P::kGH, P::kGT, from, int(P::kQueries),
                          to_gradients);
        if (const int row = static_cast<int>(threadIdx.x); row < kTile) {
          const bool is_row = from + row < int(P::kQueries);
          lse_of_row[half * kTile + row] = is_row ? exponent_of(lse, rows + from + row) : 0.0F;
          delta_of_row[half * kTile + row] = is_row ? float(delta[rows + from + row]) : 0.0F;
        }
      };
      for_tiles(begin / kTile * kTile, end, fill, [&](int from, int half) {
        const auto own_queries = queries + half * kTileSize,
                   own_gradients = gradients + half * kTileSize;
        scores.choose(from, kTile, first, half);
        // Whether every key of the warp is seen by every query of the tile.
        const bool whole = !Beside::kHides && from + kTile <= int(P::kQueries) &&
                           own + 16 <= end_key(from, place) &&
                           own >= first_key(from + kTile - 1, place);
        float score[kTileParts][4], product[kTileParts][4];
        times_rows(score, keys, own_queries);
        times_rows(product, values, own_gradients);
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
        add_times_tile(of_value, score, own_gradients);
        add_times_tile(of_key, product, own_queries);
      });
    }
    const int64_t base = ((b * P::kKeys) * kKeyHeads + head) * kDim;
    store_rows(dk, base, kKeyHeads * kDim, own, int(P::kKeys), of_key, P::kScale, P::kScale);
    store_rows(dv, base, kKeyHeads * kDim, own, int(P::kKeys), of_value, 1.0F, 1.0F);
  }
};

}  // namespace mstrain::cuda
