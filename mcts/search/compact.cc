#include "mcts/search/compact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace mstrain::mcts {
namespace {

using Word = uint32_t __attribute__((may_alias));

Word& word(const Arena& arena, uint32_t index) { return *reinterpret_cast<Word*>(arena.at(index)); }

// Calls visit(block, visits of the edge that leads to it) for `root` and every block below it.
template <class Visit>
void for_each_block(const Arena& arena, uint32_t root, Visit visit) {
  std::vector<std::pair<uint32_t, uint32_t>> stack{{root, UINT32_MAX}};
  while (!stack.empty()) {
    const auto [index, visits] = stack.back();
    stack.pop_back();
    const Block block(arena.at(index));
    visit(block, visits);
    for (uint32_t i = 0; i < block.header().count; ++i) {
      if (block.children()[i] > kPending) {
        stack.emplace_back(block.children()[i], block.visits()[i]);
      }
    }
  }
}

}  // namespace

// Each block but the root is pointed to from one place, its slot. While marking, the first word of a block's header and
// its slot change places with the slot's index, so that the new address can be written there once it is known (Jonkers,
// "A fast garbage compaction algorithm", 1979, for the case of a tree).
uint32_t compact(Arena& arena, const BlockFormat& format, uint32_t root, uint32_t min_visits,
                 std::vector<std::pair<uint32_t, uint32_t>>& exact) {
  Block(arena.at(root)).header().flags |= kLiveFlag;
  std::vector<uint32_t> stack{root};
  while (!stack.empty()) {
    const uint32_t index = stack.back();
    stack.pop_back();
    const Block block(arena.at(index));
    const uint32_t first_word = index == root ? word(arena, root) : word(arena, word(arena, index));
    const uint32_t count = first_word & 0xffffU;
    const uint32_t slots = index + kHeaderBytes / 4 + 2 * block.header().capacity;
    for (uint32_t i = 0; i < count; ++i) {
      Word& slot = word(arena, slots + i);
      const uint32_t child = slot;
      if (child <= kPending) {
        continue;
      }
      if (block.visits()[i] < min_visits) {
        slot = kNoBlock;
        continue;
      }
      Block(arena.at(child)).header().flags |= kLiveFlag;
      slot = std::exchange(word(arena, child), slots + i);
      stack.push_back(child);
    }
  }

  const uint32_t end = arena.end();
  uint32_t new_root = root;
  uint32_t to = Arena::kFirst;
  for (uint32_t from = Arena::kFirst; from < end;) {
    if (word(arena, from) == Arena::kFiller) {
      ++from;
      continue;
    }
    const BlockHeader& header = Block(arena.at(from)).header();
    const uint32_t size = format.words(header.capacity);
    if ((header.flags & kLiveFlag) != 0) {
      if (from == root) {
        new_root = to;
      } else {
        word(arena, from) = std::exchange(word(arena, word(arena, from)), to);
      }
      to += size;
    }
    from += size;
  }

  to = Arena::kFirst;
  for (uint32_t from = Arena::kFirst; from < end;) {
    if (word(arena, from) == Arena::kFiller) {
      ++from;
      continue;
    }
    BlockHeader& header = Block(arena.at(from)).header();
    const uint32_t size = format.words(header.capacity);
    if ((header.flags & kLiveFlag) != 0) {
      header.flags &= static_cast<uint8_t>(~kLiveFlag);
      if ((header.flags & kExactFlag) != 0) {
        exact.emplace_back(from, to);
      }
      std::memmove(arena.at(to), arena.at(from), size * Arena::kWord);
      to += size;
    }
    from += size;
  }
  arena.truncate(to);
  return new_root;
}

uint32_t pruning_threshold(const Arena& arena, const BlockFormat& format, uint32_t root) {
  constexpr uint32_t kExact = 1024;  // visit counts told apart; larger ones by powers of two
  std::array<uint64_t, kExact + 32> words{};
  uint64_t total = 0;
  for_each_block(arena, root, [&](const Block& block, uint32_t visits) {
    const uint32_t bucket =
        visits < kExact ? visits : kExact - 11 + static_cast<uint32_t>(std::bit_width(visits));
    const uint32_t size = format.words(block.header().capacity);
    words[bucket] += size;
    total += size;
  });
  uint64_t kept = total;
  const uint64_t wanted = (arena.end() - Arena::kFirst) / 2;
  uint32_t bucket = 0;
  while (kept > wanted && bucket + 1 < words.size()) {
    kept -= words[bucket++];
  }
  return bucket < kExact ? bucket : uint32_t{1} << std::min(bucket - kExact + 10U, 31U);
}

uint64_t count_edges(const Arena& arena, uint32_t root) {
  uint64_t edges = 0;
  for_each_block(arena, root, [&](const Block& block, uint32_t) { edges += block.header().count; });
  return edges;
}

}  // namespace mstrain::mcts
