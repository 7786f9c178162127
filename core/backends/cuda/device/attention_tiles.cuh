// What attention by products of warps is made of. A block is four warps; each has 16 rows of what its kernel computes, and tiles of the
// others' rows come into shared memory, one on its way while one is used.
#pragma once

#include "core/backends/cuda/device/attention_beside.cuh"
#include "core/backends/cuda/device/attention_shape.cuh"
#include "core/backends/cuda/device/mma.cuh"

namespace mstrain::cuda {

inline constexpr int kRowsOfBlock = 64;

template <class P>
struct AttentionTiles : AttentionShape<P> {
  using Base = AttentionShape<P>;
  using Base::end_key;
  using Base::first_key;
  using Base::kDim;
  using Base::keys_of;
  using Base::kKeyHeads;
  using Base::kParts;
  using Base::kSteps;
  using Base::lane;
  using Base::sees;
  using Base::warp;
  using typename Base::Format;
  using typename Base::Range;
  using typename Base::Stored;
  using Beside = AttentionBeside<P>;

  static constexpr int kTile = kDim <= 64 ? 64 : 32;  // rows in shared memory at a time
  static constexpr int kTileParts = kTile / 8;
  static constexpr int kTileSteps = kTile / 16;
  static constexpr int kPitch =
      kDim + 8;  // of a row in shared memory: no two rows on the same banks

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
  static constexpr int64_t blocks_of_queries() {
    return (P::kQueries + kRowsOfBlock - 1) / kRowsOfBlock;
  }
  static constexpr int64_t blocks_of_keys() { return (P::kKeys + kRowsOfBlock - 1) / kRowsOfBlock; }
  // Which rows a block has of which head; of queries the last, which see the most keys, first.
  struct Rows {
    int first;
    int64_t h, b;
  };
  static Rows queries_of_block(int64_t block) {
    const int64_t others = block / blocks_of_queries();
    return {int(blocks_of_queries() - 1 - block % blocks_of_queries()) * kRowsOfBlock,
            others % P::kHeads, others / P::kHeads};
  }

  // use(first key, keys, values) for the tiles of keys that a block's queries see. `keys`, `values`: 2 * kTileSize numbers each.
  template <class K, class V, class Memory, class Use>
  static void for_keys(int first, Scores& scores, const K& k, const V& v, const Memory& keys,
                       const Memory& values, const Use& use) {
    const int64_t b = scores.b, head = scores.h / P::kGroup;
    const auto fill = [&](int from, int half) {
      scores.fill(first, kRowsOfBlock, from, kTile, half);
      const auto to_keys = keys + half * kTileSize, to_values = values + half * kTileSize;
      load_tile<P::kKD>(k, b * P::kKB + head * P::kKH, P::kKT, from, int(P::kKeys), to_keys);
      load_tile<P::kVD>(v, b * P::kVB + head * P::kVH, P::kVT, from, int(P::kKeys), to_values);
    };
    const Range seen = keys_of(first, kRowsOfBlock, scores.place);
    for_tiles(seen.begin / kTile * kTile, seen.end, fill, [&](int from, int half) {
      scores.choose(first, kRowsOfBlock, from, half);
      use(from, keys + half * kTileSize, values + half * kTileSize);
    });
  }
};

}  // namespace mstrain::cuda
