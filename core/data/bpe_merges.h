// The merges of a byte-pair encoding: from the symbols of a word to its tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mstrain {

class BpeMerges {
 public:
  struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t result = 0;
    // Lower ones go first; of equals that which stands further left. None: the merge's place in the list.
    std::optional<uint32_t> rank = {};
  };

  // Of two with the same pair the later one counts. Ids are not negative.
  explicit BpeMerges(std::span<const Merge> merges);

  // Buffers of one thread, kept between calls.
  struct Work {
    struct Symbol {
      int32_t id = 0;
      int32_t before = 0;  // index, -1: none
      int32_t after = 0;
    };
    struct Candidate {
      uint32_t rank = 0;
      int32_t at = 0;
      int32_t left = 0;
      int32_t right = 0;
    };
    std::vector<uint32_t> ranks;
    std::vector<int32_t> results;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Merges the pair with the lowest rank, the leftmost of equals, until none is left; `ids` are the
  // symbols before and the tokens after. Quadratic in the length below kShort symbols, above it
  // n log n; both give the same.
  void apply(std::vector<int32_t>& ids, Work& work) const;

  static constexpr size_t kShort = 48;

 private:
  static constexpr uint32_t kNoRank = ~uint32_t{0};
  struct Entry {
    uint64_t pair = ~uint64_t{0};
    uint32_t rank = kNoRank;
    int32_t result = 0;
  };
  const Entry& find(int32_t left, int32_t right) const;
  void apply_short(std::vector<int32_t>& ids, Work& work) const;
  void apply_long(std::vector<int32_t>& ids, Work& work) const;

  std::vector<Entry> table_;  // open addressing, a power of two, at most half full
};

}  // namespace mstrain
