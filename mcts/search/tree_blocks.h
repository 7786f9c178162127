// The blocks of one tree, the numbers in them and the way of a descent through them: whatever knows neither the game nor the
// policies, and so is compiled once. tree.h adds those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "mcts/game.h"
#include "mcts/search/access.h"
#include "mcts/search/arena.h"
#include "mcts/search/block.h"
#include "mcts/search/config.h"
#include "mcts/search/totals.h"

namespace mstrain::mcts {

enum class Outcome { kLeaf, kTerminal, kCollision, kSubtree };

// What a shared tree does with an edge while a visit of it is under way: edges with few visits are marked, so that threads
// spread over the leaves; the many visits of the others drown one more; and what happens to the busiest edges is
// gathered by each thread and written now and then, or threads would spend their time passing cache lines.
enum class Care : uint8_t { kMark, kUpdate, kGather };

// One simulation under way: the part of it (DescentOf in descent.h) that does not know the game.
struct DescentPath {
  struct Step {
    uint32_t block;
    uint16_t edge;
    Care care = Care::kMark;
  };
  struct Gathered {
    uint32_t block;
    uint32_t edge;
    uint32_t visits;
    double sum;
  };
  // What a batch of simulations under way adds to an edge above it until it is backed up.
  using Mark = Gathered;

  Buffer<Step> path;
  std::vector<Gathered> gathered;  // by this thread, not yet in the tree
  uint32_t gathered_roots = 0;
  uint64_t* origin = nullptr;  // visits of the node where the path begins
  uint32_t above = 0;          // steps from the root to there
  bool claims = false;         // stops at subtrees that one thread works in at a time
  uint32_t entry = 0;          // block of the subtree that it took
  uint32_t entry_visits = 0;
  std::vector<Mark> marks;
  Arena::Chunk chunk;             // memory for what a thread adds to a shared tree,
  Arena::Chunk* memory = &chunk;  // or that of another descent of the same thread
  uint32_t fresh_edges = 0;       // added there and not yet counted in the tree
  bool owns_leaf = false;         // and is to give it a block
  bool exact = false;             // the path itself ends in a terminal state
  uint32_t descent = 0;           // its number, for RAVE
  SearchCounters counters;
};

class TreeBlocks {
 public:
  uint64_t root_visits() const { return read<Access::kShared>(&counts_.root_visits); }
  uint32_t root_block() const { return root_child_; }
  const Arena& arena() const { return arena_; }
  const BlockFormat& format() const { return format_; }
  // Of the blocks (never more than memory_limit), and of the exact numbers of edges that are visited often.
  size_t used_bytes() const { return arena_.used_bytes(); }
  size_t total_bytes() const { return totals_.bytes(); }
  uint64_t count_nodes() const { return 1 + uint64_t{counts_.edges}; }

  // A block did not fit; leaves are evaluated without being expanded until prune().
  bool full() const { return read<Access::kShared>(&full_); }
  // Frees about half of the memory by dropping the least visited nodes.
  void prune();
  // True where pruning would help; false again once it was tried in vain or given up.
  bool wants_room() const { return full() && !stuck_; }
  void stop_growing() { stuck_ = true; }

  // The most visited root edge; also while others search.
  uint32_t leader() const;
  // Of an edge: visits, and the sum of their values for the player of its block. While nobody searches.
  uint64_t visits_of(uint32_t block, uint32_t edge) const;
  double sum_of(uint32_t block, uint32_t edge) const;

  // Writes what a thread gathered in a shared tree.
  void settle(DescentPath& d);
  // The same, and gives back what is left of the thread's memory: its last words about this tree.
  void retire(DescentPath& d);
  // Threads work by subtrees from now on (tree_claim.h), until a run begins. Their number decides how many nodes are open;
  // every thread may pass the root.
  void open_root(int64_t threads);

 protected:
  using Step = DescentPath::Step;

  // A change of a sum, for the rare edge whose sum stands in totals_: the new sum of (sum, visits).
  class SumChange {
   public:
    template <class Change>
    explicit SumChange(const Change& change)
        : change_(&change), call_([](const void* to, double sum, double visits) {
            return (*static_cast<const Change*>(to))(sum, visits);
          }) {}
    double operator()(double sum, double visits) const { return call_(change_, sum, visits); }

   private:
    const void* change_;
    double (*call_)(const void* change, double sum, double visits);
  };

  // `moves`: blocks may get more edges than they had room for, and then leave their place.
  TreeBlocks(const SearchConfig& config, bool moves)
      : moves_(moves), arena_(static_cast<size_t>(config.memory_limit), config.huge_pages) {}

  // Where the block of that index stands now.
  uint32_t present(uint32_t index) const {
    while (moves_ && (Block(arena_.at(index)).header().flags & kMovedFlag) != 0) {
      std::memcpy(&index, arena_.at(index), sizeof index);
    }
    return index;
  }
  Block block_at(uint32_t index) const { return Block(arena_.at(present(index))); }
  uint32_t* slot(const DescentPath& d);

  void clear();
  // What hangs below block `root`, but for blocks of fewer visits, becomes the tree.
  void keep(uint32_t root, uint32_t min_visits);

  // True where other threads change the tree too.
  bool is_shared(Access access) const { return access == Access::kShared || by_subtrees_; }
  // A block of so many edges, with room for `capacity` of them, all numbers 0; kNoBlock where memory is full.
  uint32_t add_block(DescentPath& d, int player, size_t count, uint32_t capacity, bool shared);
  // Makes room for more edges in the full block `index`, which moves. The new place; kNoBlock where there is no room.
  uint32_t enlarge(DescentPath& d, uint32_t index);

  // The numbers of an edge are changed by these two alone. `many` may be negative where marks are taken back. Returns the
  // visits that the column shows afterwards.
  template <Access kAccess>
  uint32_t add_visits(uint32_t index, const Block& block, uint32_t edge, int32_t many);
  // sum = change(sum, visits), with `visits` as the column shows them.
  template <Access kAccess, class Change>
  void change_sum(uint32_t index, const Block& block, uint32_t column, uint32_t edge,
                  uint32_t visits, const Change& change);
  // Their slow ways, which take what they need by value: what a call may look at stands in memory even where it is not made.
  template <Access kAccess, class Change>
  static bool change_where_exact(const Block& block, uint32_t column, uint32_t edge,
                                 uint32_t visits, const Change& change);
  uint32_t count_exactly(uint32_t index, Block block, uint32_t edge, int32_t many, bool shared);
  void change_exactly(uint32_t index, Block block, uint32_t column, uint32_t edge, uint32_t visits,
                      SumChange change, bool shared);

  // In a shared tree: `many` results that sum to `sum`, which no policy looks at one by one.
  void add_results(uint32_t index, uint32_t edge, int32_t many, double sum);
  void gather(DescentPath& d, const Step& step, float value);
  // kLeaf: the node is open; kSubtree: taken for the caller; kCollision: somebody else has it.
  Outcome claim(uint32_t index) {
    uint16_t* at_claim = &block_at(index).header().claim;
    uint16_t now = __atomic_load_n(at_claim, __ATOMIC_ACQUIRE);
    if (now == kFree && __atomic_compare_exchange_n(at_claim, &now, kTaken, false, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_ACQUIRE)) {
      return Outcome::kSubtree;
    }
    return now == kOpen ? Outcome::kLeaf : Outcome::kCollision;
  }
  // Lets `many` visits stand on the path until they are taken back; they leave the means as they are.
  void mark_path(DescentPath& d, uint32_t many);
  void unmark(DescentPath& d, size_t from, size_t to);

  // (block, edge) from the root's edge `first` on, then of the most visited ones, up to a chance node.
  std::vector<std::pair<uint32_t, uint32_t>> main_line(uint32_t first) const;
  // The mean over the edges of the root for its player.
  double root_mean() const;

  const bool moves_;
  bool by_subtrees_ = false;
  uint32_t open_share_ = 64;  // a node with this part of all visits is opened to all threads
  BlockFormat format_;
  Arena arena_;
  Totals totals_;
  uint32_t root_child_ = kNoBlock;
  bool full_ = false;
  bool stuck_ = false;
  // Written by every thread: away from what all of them read.
  struct alignas(64) Counts {
    uint64_t root_visits = 0;
    uint32_t edges = 0;
  };
  Counts counts_;

 private:
  uint32_t allocate(DescentPath& d, uint32_t words, bool shared);
  void note_exact(const Block& block, bool shared);
};

template <Access kAccess>
[[gnu::always_inline]] inline uint32_t TreeBlocks::add_visits(uint32_t index, const Block& block,
                                                              uint32_t edge, int32_t many) {
  uint32_t* shown = block.visits() + edge;
  const uint32_t before = read<kAccess>(shown);
  if (before >= kCountFrom) [[unlikely]] {
    return count_exactly(index, block, edge, many, is_shared(kAccess));
  }
  add<kAccess>(shown, static_cast<uint32_t>(many));
  return before + static_cast<uint32_t>(many);
}

template <Access kAccess, class Change>
[[gnu::always_inline]] inline void TreeBlocks::change_sum(uint32_t index, const Block& block,
                                                          uint32_t column, uint32_t edge,
                                                          uint32_t visits, const Change& change) {
  if (visits < kExactFrom) [[likely]] {
    update<kAccess>(block.column(column) + edge,
                    [&](float sum) { return change(sum, static_cast<float>(visits)); });
  } else if (!change_where_exact<kAccess>(block, column, edge, visits, change)) {
    const Change copy = change;
    change_exactly(index, block, column, edge, visits, SumChange(copy), is_shared(kAccess));
  }
}

// Where the column itself can show the new sum, as it does for wins and losses up to 2^24, and no edge of the block has left for
// Totals: true. Others may send the edge there meanwhile, which then finds this change as late.
template <Access kAccess, class Change>
[[gnu::always_inline]] inline bool TreeBlocks::change_where_exact(const Block& block,
                                                                  uint32_t column, uint32_t edge,
                                                                  uint32_t visits,
                                                                  const Change& change) {
  if (visits >= kCountFrom || (read<Access::kShared>(&block.header().flags) & kExactFlag) != 0) {
    return false;
  }
  float* shown = block.column(column) + edge;
  float before = read<kAccess>(shown);
  for (;;) {
    const double next = change(static_cast<double>(before), static_cast<double>(visits));
    auto after = static_cast<float>(next);
    if (static_cast<double>(after) != next) {
      return false;
    }
    if constexpr (kAccess == Access::kShared) {
      if (!__atomic_compare_exchange(shown, &before, &after, true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        continue;
      }
    } else {
      *shown = after;
    }
    return true;
  }
}

}  // namespace mstrain::mcts
