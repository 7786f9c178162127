// The gradients of attention by the warp groups of sm_90a: one kernel for keys and values, and one for queries, each with the scores
// anew. The rows of a kernel stay, tiles of the others come; a tile's scores and the products of values and gradients are
// begun together, so that probabilities are made while the latter run, and their slopes while those are multiplied.
#pragma once

#include "core/backends/cuda/device/warp_group_tiles.cuh"

namespace mstrain::cuda {

template <class P, bool of_keys>
struct WarpGroupGradient : WarpGroupTiles<P> {
  using Base = WarpGroupTiles<P>;
  using Base::add_times_tile;
  using Base::end_key;
  using Base::first_key;
  using Base::group;
  using Base::kDim;
  using Base::kParts;
  using Base::lane;
  using Base::release;
  using Base::thread;
  using Base::times_rows;
  using typename Base::Stored;

  static constexpr int kGroups = 2;  // that compute
  static constexpr int kThreads = (kGroups + 1) * kWarpGroup;
  static constexpr int kRows = kGroups * 64;
  static constexpr int kTile = of_keys && kDim == 128 ? 64 : 128;  // as registers allow
  static constexpr int kTileParts = kTile / 8;
  static constexpr int kTileSteps = kTile / 16;
  static constexpr int kTileSize = kTile * kDim;
  static constexpr int kSlots =
      kTile * kDim == 128 * 128 ? 4 : 8;  // keys and values, or queries and gradients
  static constexpr int kOwnSlots = kDim == 64 ? 2 : 1;
  static constexpr int kOwnSize = 2 * kRows * kDim;
  static constexpr int kElements = kOwnSlots * kOwnSize + kSlots * kTileSize;
  static constexpr int kNumbers = of_keys ? kSlots * kTile : 0;  // lse and delta of queries
  static constexpr int kSharedBytes =
      kElements * 2 + kNumbers * 4 + Ring<kSlots>::kBytes + Ring<kOwnSlots>::kBytes;
  static constexpr int64_t kOwnRows = of_keys ? P::kKeys : P::kQueries;
  static constexpr int64_t kOwnHeads = of_keys ? Base::kKeyHeads : P::kHeads;

  // f(head of the others, first row of a tile) for all that these rows have to do with.
  template <class F>
  static void for_tiles(int first, int64_t head, const F& f) {
    if constexpr (of_keys) {
      const int begin = P::kCausal && first > Base::kPlace ? first - Base::kPlace : 0;
      const int end = Base::end_query(first + kRows - 1);
      for (int64_t h = head * P::kGroup; h < (head + 1) * P::kGroup; ++h) {
        for (int from = begin / kTile * kTile; from < end; from += kTile) {
          f(h, from);
        }
      }
    } else {
      const auto seen = Base::template tiles_of_keys<kTile>(first, kRows);
      for (int tile = seen.begin; tile < seen.end; ++tile) {
        f(head / P::kGroup, tile * kTile);
      }
    }
  }

  // Of a group's 64 rows from `own` on and a tile from `from` on: whether any pair sees each other, and whether all do.
  static constexpr int kSomeQueries = of_keys ? kTile : 64, kSomeKeys = of_keys ? 64 : kTile;
  static bool any_see(int own, int from) {
    const int query = of_keys ? from : own, key = of_keys ? own : from;
    const int beyond =
        query + kSomeQueries < int(P::kQueries) ? query + kSomeQueries : int(P::kQueries);
    return query < beyond && key < end_key(beyond - 1) && key + kSomeKeys > first_key(query);
  }
  static bool all_see(int own, int from) {
    const int query = of_keys ? from : own, key = of_keys ? own : from;
    return key + kSomeKeys <= end_key(query) && key >= first_key(query + kSomeQueries - 1);
  }

  // (dk, dv)[b, s, g, d], sums over the query heads of a key head; or dq[b, t, h, d], where there is no second result.
  template <class G, class Q, class K, class V, class Lse, class Delta, class To, class ToValues>
  static void run(const G& gradient, const Q& q, const K& k, const V& v, const Lse& lse,
                  const Delta& delta, const To& to, const ToValues& to_values) {
    MSTRAIN_SHARED_BLOCK(Stored, shared, kSharedBytes);
    const auto tiles = shared + kOwnSlots * kOwnSize;
    const auto numbers = as_numbers(shared + kElements);
    const uint32_t barriers = address_of(shared) + 2 * kElements + 4 * kNumbers;
    Ring<kSlots> ring{barriers};
    Ring<kOwnSlots> own_ring{barriers + Ring<kSlots>::kBytes};
    if (threadIdx.x == 0) {
      ring.init(kGroups);
      own_ring.init(kGroups);
    }
    __syncthreads();
    if (group() == 0) {
      need_fewer_registers<40>();
      Filler filler;
      Base::template for_work<kRows, kOwnRows, kOwnHeads>([&](int first, int64_t head, int64_t b) {
        bool is_first = true;
        for_tiles(first, head, [&](int64_t other, int from) {
          if (is_first) {
            if (kOwnSlots == 1) {
              filler.finish();  // nothing is emptied before all of it is used
            }
            filler.fill(own_ring, [&](int slot) {
              const auto own_first = shared + slot * kOwnSize;
              const auto own_second = own_first + kRows * kDim;
              if constexpr (of_keys) {
                Base::template fill_keys<kRows>(k, b, head, first, own_first);
                Base::template fill_values<kRows>(v, b, head, first, own_second);
              } else {
                Base::template fill_queries<kRows>(q, b, head, first, own_first);
                Base::template fill_gradients<kRows>(gradient, b, head, first, own_second);
              }
            });
            is_first = false;
          }
          filler.fill(ring, [&](int slot) {
            if constexpr (of_keys) {
              if (thread() < kTile) {
                const int row = from + thread(), place = slot * kTile + thread();
                const int64_t number = (b * P::kHeads + other) * P::kQueries + row;
                begin_copy_of_number(numbers, place, lse, number, row < int(P::kQueries));
                begin_copy_of_number(numbers, place + kTile, delta, number, row < int(P::kQueries));
              }
              Base::template fill_queries<kTile>(q, b, other, from, tiles + slot * kTileSize);
            } else {
              Base::template fill_keys<kTile>(k, b, other, from, tiles + slot * kTileSize);
            }
          });
          filler.fill(ring, [&](int slot) {
            if constexpr (of_keys) {
              Base::template fill_gradients<kTile>(gradient, b, other, from,
                                                   tiles + slot * kTileSize);
            } else {
              Base::template fill_values<kTile>(v, b, other, from, tiles + slot * kTileSize);
            }
          });
        });
      });
      filler.finish();
      return;
    }
    need_more_registers<232>();
    const auto address = [&](int slot) {
      return address_of(tiles) + uint32_t(slot * kTileSize * 2);
    };
    Base::template for_work<kRows, kOwnRows, kOwnHeads>([&](int first, int64_t head, int64_t b) {
      const int own = first + Base::own_row(), of_group = first + (group() - 1) * 64;
      float sum[kParts][4] = {}, sum_of_values[of_keys ? kParts : 1][4] = {};
      float score[kTileParts][4], product[kTileParts][4];
      Fragment weights[kTileSteps], slopes[kTileSteps];
      float of_lse[2] = {0, 0}, of_delta[2] = {0, 0};
      if constexpr (!of_keys) {
        for (int r = 0; r < 2; ++r) {
          if (own + 8 * r < int(P::kQueries)) {
            const int64_t number = (b * P::kHeads + head) * P::kQueries + own + 8 * r;
            of_lse[r] = lse[number] * kLog2E;
            of_delta[r] = delta[number];
          }
        }
      }
      const uint32_t rows_first =
          address_of(shared) +
          uint32_t((own_ring.slot * kOwnSize + (group() - 1) * 64 * kRowOfTile) * 2);
      const uint32_t rows_second = rows_first + uint32_t(kRows * kDim * 2);
      bool is_first = true;
      uint32_t first_used = 0, second_used = 0;  // what may be filled again when their products end
      // Before anything is waited for that comes only when there is room.
      const auto end_products_before = [&] {
        finish_products<0>(score, sum, sum_of_values, weights, slopes);
        if (first_used != 0) {
          release(first_used);
          if (of_keys) {
            release(second_used);
          }
          first_used = 0;
        }
      };
      for_tiles(first, head, [&](int64_t, int from) {
        const auto one = ring;
        ring.step();
        const auto two = ring;
        ring.step();
        if (is_first) {
          own_ring.wait_until_full();
          is_first = false;
        }
        one.wait_until_full();
        if (!any_see(of_group, from)) {
          end_products_before();
          two.wait_until_full();
          release(one.empty());
          release(two.empty());
          return;
        }
        begin_products(score);
        times_rows(score, rows_first, kRows, address(one.slot));
        end_products();
        end_products_before();
        two.wait_until_full();
        begin_products(product);
        times_rows(product, rows_second, kRows, address(two.slot));
        end_products();
        first_used = one.empty();
        second_used = two.empty();
        const int place = one.slot * kTile + lane() % 4 * 2;
#pragma unroll
        for (int part = 0; part < kTileParts; ++part) {
          float lses[4] = {of_lse[0], of_lse[0], of_lse[1], of_lse[1]};
          if constexpr (of_keys) {
            const Pair<float> two_lses = pair_at(numbers, place + part * 8);
            for (int i = 0; i < 4; ++i) {
              lses[i] = two_lses.at[i % 2] * kLog2E;
            }
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            score[part][i] = fast_exp2(score[part][i] * (P::kScale * kLog2E) - lses[i]);
          }
        }
        if (!all_see(of_group, from)) {
#pragma unroll
          for (int part = 0; part < kTileParts; ++part) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int row = own + i / 2 * 8, column = from + part * 8 + lane() % 4 * 2 + i % 2;
              const bool seen = of_keys ? Base::sees(column, row) : Base::sees(row, column);
              score[part][i] = seen ? score[part][i] : 0.0F;
            }
          }
        }
        finish_products<0>(product);
        if (!of_keys) {
          release(two.empty());
        }
#pragma unroll
        for (int part = 0; part < kTileParts; ++part) {
          float deltas[4] = {of_delta[0], of_delta[0], of_delta[1], of_delta[1]};
          if constexpr (of_keys) {
            const Pair<float> two_deltas = pair_at(numbers, place + part * 8 + kTile);
            for (int i = 0; i < 4; ++i) {
              deltas[i] = two_deltas.at[i % 2];
            }
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            product[part][i] = score[part][i] * (product[part][i] - deltas[i]);
          }
        }
        if constexpr (of_keys) {
          Base::pack(weights, score);
        }
        Base::pack(slopes, product);
        begin_products(sum, sum_of_values, weights, slopes);
        if constexpr (of_keys) {
          add_times_tile(sum_of_values, weights, address(two.slot));
        }
        add_times_tile(sum, slopes, address(one.slot));
        end_products();
      });
      if (!is_first) {
        release(own_ring.empty());
        own_ring.step();
      }
      end_products_before();
      const int64_t base = (b * kOwnRows * kOwnHeads + head) * kDim;
      const int warp_row = own - lane() / 4;
      Base::store_rows(to, base, kOwnHeads * kDim, warp_row, int(kOwnRows), sum, P::kScale,
                       P::kScale);
      if constexpr (of_keys) {
        Base::store_rows(to_values, base, kOwnHeads * kDim, warp_row, int(kOwnRows), sum_of_values,
                         1.0F, 1.0F);
      }
    });
  }
};

}  // namespace mstrain::cuda
