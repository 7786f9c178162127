// What attention computes by the struct P (attention_problem.h): Format, kDim, kBatch, kQueries, kKeys, kHeads, kGroup (query heads of a
// key head), kCausal, kWindow (0: none), kScale, strides in elements of q, k, v, g and out by b, t, h, d, and what
// attention_beside.cuh asks for. Here: who sees whom, and what does not depend on who multiplies.
#pragma once

#include "core/backends/cuda/device/kernel.cuh"

namespace mstrain::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr float kLog2E = 1.4426950408889634F;

template <class P>
struct AttentionShape {
  using Format = typename P::Format;
  using Stored = typename Format::Stored;
  static constexpr int kDim = P::kDim;
  static constexpr int kSteps = kDim / 16;  // of 16 summands over a vector
  static constexpr int kParts = kDim / 8;   // of 8 columns of one
  static constexpr int64_t kKeyHeads = P::kHeads / P::kGroup;

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

  // Rows [begin, end).
  struct Range {
    int begin, end;
  };
  // Keys that some of `count` queries from `first` on see; none where it does not end behind its begin.
  static Range keys_of(int first, int count, int place = kPlace) {
    const int beyond = first + count < int(P::kQueries) ? first + count : int(P::kQueries);
    return {first_key(first, place), end_key(beyond - 1, place)};
  }
  // Queries that see key j or keys before it end here.
  static int end_query(int j, int place = kPlace) {
    const int end = P::kWindow == 0 ? int(P::kQueries) : j - place + int(P::kWindow);
    return end < int(P::kQueries) ? end : int(P::kQueries);
  }

  static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

  static float of_quad(float x, bool sum) {
    for (int mask = 1; mask < 4; mask *= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, x, mask);
      x = sum ? x + other : (other > x ? other : x);
    }
    return x;
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
};

}  // namespace mstrain::cuda
