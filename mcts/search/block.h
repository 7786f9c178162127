// An expanded node is a block: a header and one column for each number that its edges carry. Edges are nodes: what is
// known about a child that is not expanded itself stands in its parent's block, so a node of plain UCT costs 13 bytes in a
// game of at most 256 actions, and its share of the header.
//
//   header 12 | visits u32[c] | value sums f32[c] | child blocks u32[c] | policy columns f32[c]... | bounds f32[c]...
//           | priors u16[c] | actions[c] | trailer  c = capacity; the first `count` edges exist, the first `opened` of
//                                                   them are or were visited
//
// The value sum of an edge is seen by the player of its block (player 0 in a chance block). Of edges that are visited often the
// columns show rounded numbers; the exact ones stand in Totals.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mstrain::mcts {

// What stands in the column of children besides block indices.
inline constexpr uint32_t kNoBlock = 0;
inline constexpr uint32_t kPending = 1;  // its evaluation is under way

struct BlockHeader {
  uint16_t count;
  uint16_t opened;
  int8_t player;
  uint8_t flags;
  uint16_t capacity;
  uint16_t
      ahead;  // 1 + the edge that the next descent takes, where it is already known; 0: to be chosen
  uint16_t claim;  // kFree, kTaken or kOpen
};
static_assert(sizeof(BlockHeader) == 12);

inline constexpr uint32_t kHeaderBytes = sizeof(BlockHeader);
inline constexpr uint32_t kMostEdges = 0xfffeU;  // so that no header looks like Arena::kFiller

// Numbers of columns.
inline constexpr uint32_t kVisitColumn = 0;
inline constexpr uint32_t kSumColumn = 1;
inline constexpr uint32_t kPolicyColumn = 3;  // the first one; children stand between

inline constexpr uint8_t kLiveFlag = 1;  // used while compacting
inline constexpr uint8_t kMovedFlag =
    2;  // outgrown: the first word is the index of the larger block
inline constexpr uint8_t kExactFlag = 4;  // an edge has numbers in Totals

// What stands in BlockHeader::claim; see tree_claim.h.
inline constexpr uint16_t kFree = 0;
inline constexpr uint16_t kTaken = 1;
inline constexpr uint16_t kOpen = 2;

// A probability in 16 bits: 5 of exponent, 11 of mantissa; relative error 2^-12, smallest value 2^-31 (which stands for 0).
inline uint16_t pack_prior(float p) {
  constexpr uint32_t kBias = (127U - 31U) << 11U;
  const uint32_t bits = (std::bit_cast<uint32_t>(p) + 0x800U) >> 12U;
  return bits <= kBias ? uint16_t{0} : static_cast<uint16_t>(std::min(bits - kBias, 0xffffU));
}
inline float unpack_prior(uint16_t packed) {
  return std::bit_cast<float>((uint32_t{packed} << 12U) + ((127U - 31U) << 23U));
}

// The shape of the blocks of one tree.
struct BlockFormat {
  uint32_t policy_columns = 0;
  uint32_t bound_columns = 0;
  uint32_t prior_bytes = 0;   // 0 or 2
  uint32_t action_bytes = 2;  // 1, 2, 4 or 8
  uint32_t trailer_words = 0;

  uint32_t edge_bytes() const {
    return 12 + 4 * (policy_columns + bound_columns) + prior_bytes + action_bytes;
  }
  uint32_t words(uint32_t capacity) const {
    return (kHeaderBytes + capacity * edge_bytes() + 3) / 4 + trailer_words;
  }
};

// A view of one block. Plain reads and writes; the search adds atomicity where threads share the tree.
class Block {
 public:
  explicit Block(std::byte* base)
      : base_(base), capacity_(reinterpret_cast<BlockHeader*>(base)->capacity) {}

  BlockHeader& header() const { return *reinterpret_cast<BlockHeader*>(base_); }
  uint32_t* visits() const { return reinterpret_cast<uint32_t*>(base_ + kHeaderBytes); }
  float* sums() const { return column(kSumColumn); }
  uint32_t* children() const {
    return reinterpret_cast<uint32_t*>(base_ + kHeaderBytes + size_t{8} * capacity_);
  }
  float* policy_column(uint32_t i) const { return column(kPolicyColumn + i); }
  float* column(uint32_t i) const {
    return reinterpret_cast<float*>(base_ + kHeaderBytes + size_t{4} * i * capacity_);
  }
  float* bound_column(const BlockFormat& format, uint32_t i) const {
    return column(kPolicyColumn + format.policy_columns + i);
  }
  uint16_t* priors(const BlockFormat& format) const {
    return reinterpret_cast<uint16_t*>(
        column(kPolicyColumn + format.policy_columns + format.bound_columns));
  }
  std::byte* actions(const BlockFormat& format) const {
    return reinterpret_cast<std::byte*>(priors(format)) + size_t{format.prior_bytes} * capacity_;
  }
  float& trailer(const BlockFormat& format) const {
    return *reinterpret_cast<float*>(base_ + size_t{4} * (format.words(capacity_) - 1));
  }

 private:
  std::byte* base_;
  uint32_t capacity_;
};

}  // namespace mstrain::mcts
