// What stands beside q, k and v in attention: biases of scores, keys that are hidden, probabilities that are dropped
// (core/ops/attention_form.h has the operands; random_draw.h the numbers of a draw).
//
// P says what there is (attention_texts.cc): kMasked, kSegmented, kPlaced, kBiased, kTabled, kDropped, strides of each operand,
// bucket_of(distance), and of a draw kKeep and the dims kWholeH, kWholeT, kWholeS of the whole. What is absent is never read.
#pragma once

#include "core/backends/cuda/device/random.cuh"

namespace mstrain::cuda {

template <class P>
struct AttentionBeside {
  using Format = typename P::Format;
  using Stored = typename Format::Stored;
  static constexpr bool kHides = P::kMasked || P::kSegmented;

  Global<const Stored> bias, table;
  Global<const uint8_t> mask;
  Global<const int32_t> query_segments, key_segments, start;
  Global<const uint32_t> key;
  Global<const int32_t> offset;
  uint64_t site;

  // Where the first query of a sample stands among its keys.
  int place_of(int64_t b) const {
    if constexpr (P::kPlaced) {
      return int(start[b * P::kStart0]);
    } else {
      return int(P::kKeys - P::kQueries);
    }
  }
  // Rows and keys of the problem alone.
  bool hides(int64_t b, int row, int at) const {
    bool hidden = false;
    if constexpr (P::kMasked) {
      hidden = mask[b * P::kMask0 + at * P::kMask1] == 0;
    }
    if constexpr (P::kSegmented) {
      hidden = hidden || query_segments[b * P::kQuerySegments0 + row * P::kQuerySegments1] !=
                             key_segments[b * P::kKeySegments0 + at * P::kKeySegments1];
    }
    return hidden;
  }
  float bias_at(int64_t b, int64_t h, int64_t row, int64_t at) const {
    return Format::load(
        bias[b * P::kBias0 + h * P::kBias1 + row * P::kBias2 + at * P::kBias3]);
  }
  float bias_by_distance(int64_t b, int64_t h, int distance) const {
    return Format::load(
        table[b * P::kTable0 + P::bucket_of(distance) * P::kTable1 + h * P::kTable2]);
  }
  // What a probability is multiplied by: 0, or 1 / kKeep.
  float kept(int64_t b, int64_t h, int64_t row, int64_t at) const {
    const int64_t index =
        ((((b + offset[0]) * P::kWholeH + h + offset[P::kOffset0]) * P::kWholeT + row +
          offset[2 * P::kOffset0]) *
         P::kWholeS) +
        at + offset[3 * P::kOffset0];
    const uint32_t word =
        Stream{{key[0], key[P::kKey0]}, site}.word(static_cast<uint64_t>(index));
    return float(word >> 8) * 0x1p-24F < P::kKeep ? 1.0F / P::kKeep : 0.0F;
  }
};

}  // namespace mstrain::cuda
