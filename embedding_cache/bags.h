// Positions of a batch pooled into one vector: the values of a field that has several, or all fields of a sample where a model adds them up.
//
//   // Two fields of 16 floats, side by side: the first has any number of ids, the second one. Then the wide weights of both, added up.
//   Bags deep{.offsets = deep_offsets, .pooling = Pooling::kMean, .segment = 0, .per_row = 2};
//   Bags wide{.offsets = wide_offsets, .segment = 1};
//   cache.gather(ticket, deep, x, 32);                                  // x[samples, 32]
//   cache.gather(ticket, wide, logits, 1);                              // logits[samples]
//   cache.update(ticket, {{{deep, dx, 32}, {wide, dlogits, 1}}});       // both segments of the rows learn at once
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mstrain::embedding_cache {

// kMean divides by the number of positions. Of kMax each float learns at the first position that has the largest. A bag of no positions is zeros.
enum class Pooling : uint8_t { kSum, kMean, kMax };

// What a call is given must live as long as the call.
struct Bags {
  // Bag b is positions [offsets[b], offsets[b + 1]): ascending from 0 to the number of positions. Empty: each position is a bag.
  std::span<const uint32_t> offsets = {};
  Pooling pooling = Pooling::kSum;
  std::span<const float> weights =
      {};  // by position: what its row is multiplied by, for kSum. Empty: 1
  std::optional<uint32_t> segment = {};  // of the rows; none: whole rows
  size_t per_row = 1;  // bags side by side in each row of the matrix that they make
};

// d loss / d bags: rows of bags.per_row bags each, `stride` floats apart.
struct BagGradients {
  Bags bags;
  const float* gradients = nullptr;
  size_t stride = 0;
};

}  // namespace mstrain::embedding_cache
