// One search tree: descend to a leaf, expand it, back its value up. What drives it (budgets, threads, batches) is search.h
// and batch_search.h.
//
// A descent follows edges from the root, applying their actions to a copy of the root state, until it meets a terminal
// state (values known), or a node without a block. Plain rollouts expand such a node on its second visit, so that leaves cost
// nothing but their edge; evaluators with priors fill the block from the evaluation itself. Chance states are never
// evaluated: they are expanded at once and passed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mcts/chance.h"
#include "mcts/eval_batch.h"
#include "mcts/search/access.h"
#include "mcts/search/arena.h"
#include "mcts/search/block.h"
#include "mcts/search/bounds.h"
#include "mcts/search/choose.h"
#include "mcts/search/compact.h"
#include "mcts/search/gumbel_policy.h"
#include "mcts/search/policies.h"

namespace mstrain::mcts {

enum class Outcome { kLeaf, kTerminal, kCollision, kSubtree };

template <GameState S, class P>
class Tree {
 public:
  using A = ActionOf<S>;
  using Values = ReturnsOf<S>;
  using Columns = ColumnsOf<P>;
  static constexpr bool kSamples = P::Expand::kSamples && HasSampleAction<S>;
  static constexpr bool kGrows = kSamples || (HasSampleChance<S> && !HasChance<S>);
  // Actions below a known number are kept in as many bytes as they need.
  static constexpr uint32_t kActionBytes = [] {
    if constexpr (HasDenseActions<S>) {
      return S::kMaxActions <= 256 ? 1 : S::kMaxActions <= 65536 ? 2 : sizeof(A);
    } else {
      return sizeof(A);
    }
  }();
  static constexpr bool kExplores = requires(const typename P::Select& select, Random& rng) {
    select.explore(rng);
  };
  // One thread that finishes each descent before the next may choose the edges of the next one while it backs a value up:
  // the choices at all nodes of the path are then independent of each other, and the way down is a chain of loads.
  static constexpr bool kAhead = !P::kGumbel && !kSamples && !kExplores;

  // What a shared tree does with an edge while a visit of it is under way: edges with few visits are marked, so that threads
  // spread over the leaves; the many visits of the others drown one more; and what happens to the busiest edges is
  // gathered by each thread and written now and then, or threads would spend their time passing cache lines.
  enum class Care : uint8_t { kMark, kUpdate, kGather };
  static constexpr uint32_t kMarkBelow = 64;
  static constexpr uint32_t kGatherFrom = 1024;
  // Sums can be gathered where nothing but a sum is kept.
  static constexpr bool kGathers =
      std::is_same_v<typename P::Backup, MeanBackup> && Columns::kCount == 0;
  struct Step {
    uint32_t block;
    uint16_t edge;
    Care care = Care::kMark;
  };
  struct Gathered {
    uint32_t block;
    uint32_t edge;
    uint32_t visits;
    float sum;
  };

  // What a batch of simulations under way adds to an edge above it until it is backed up.
  struct Mark {
    uint32_t block;
    uint32_t edge;
    uint32_t visits;
    float sum;
  };

  // One simulation under way. No two share a cache line.
  struct alignas(64) Descent {
    Buffer<Step> path;
    std::optional<S> state;
    uint64_t generation = 0;  // of the root that `state` was copied from; 0: no copy
    Buffer<Values> rewards;   // of each step, where the game pays any
    Buffer<A> moves;          // of each step, where somebody asks
    Random rng;
    ActionBufferOf<S> actions;
    ChanceBufferOf<S> outcomes;
    std::vector<float> priors;
    std::vector<std::pair<int, A>> trace;
    EvalItem<S> item;
    std::vector<Gathered> gathered;  // by this thread, not yet in the tree
    uint32_t gathered_roots = 0;
    uint32_t* origin = nullptr;  // visits of the node where the path begins
    uint32_t above = 0;          // steps from the root to there
    bool claims = false;         // stops at subtrees that one thread works in at a time
    uint32_t entry = 0;          // block of the subtree that it took
    uint32_t entry_visits = 0;
    std::vector<Mark> marks;
    Arena::Chunk chunk;        // memory for what this thread adds to a shared tree
    uint32_t fresh_edges = 0;  // added there and not yet counted in the tree
    bool owns_leaf = false;    // and is to give it a block
    bool exact = false;        // the path itself ends in a terminal state
    Values
        tail{};  // paid, and discount due, on a way below the last step that the tree has no room for
    float tail_discount = 1;
    std::vector<uint32_t> order;  // scratch of expansion
    std::vector<uint32_t>
        played;  // for RAVE: by player and action, the number of the descent that last had it
    uint32_t descent = 0;
    SearchCounters counters;
  };

  // Trees with different numbers draw different random numbers.
  Tree(const SearchConfig& config, uint64_t number)
      : config_(config),
        select_(config),
        expand_(config),
        backup_(config),
        random_(config.seed, number),
        virtual_loss_(static_cast<float>(config.virtual_loss)),
        discount_(static_cast<float>(config.discount)),
        arena_(static_cast<size_t>(config.memory_limit), config.huge_pages) {
    check(!(config.solve && (HasRewards<S> || config.discount != 1)),
          "search.solve: proven values need a game without rewards and discount 1");
    check(!(config.solve && P::kGumbel), "search.solve: Gumbel selection takes no proven values");
    gumbel_scale_ = {static_cast<float>(config.gumbel_visit),
                     static_cast<float>(config.gumbel_scale)};
    format_ = {.policy_columns = Columns::kCount,
               .bound_columns = config.solve ? Solver::kColumns : 0,
               .prior_bytes = Columns::kPrior ? 2U : 0U,
               .action_bytes = kActionBytes,
               .trailer_words = P::kGumbel ? 1U : 0U};
  }

  // Forgets the tree and takes a new root.
  void set_root(const S& root) {
    root_.emplace(root);
    ++generation_;
    arena_.reset();
    root_child_ = kNoBlock;
    root_visits_ = 0;
    edges_ = 0;
    full_ = stuck_ = false;
    gumbel_.clear();
  }
  // From now on draws the numbers of tree `number`.
  void reseed(uint64_t number) { random_ = Random(config_.seed, number); }
  bool has_root() const { return root_.has_value(); }
  const S& root() const { return *root_; }
  uint32_t root_visits() const { return read<Access::kShared>(&root_visits_); }

  // Makes the child by `action` the root and keeps what was found below it. The action must be legal where the root
  // was expanded with all its actions; Error otherwise.
  void advance(A action) {
    check(root_.has_value(), "search: advance() before any run");
    check(root_->player() != kTerminal, "search: advance() on a finished game");
    uint32_t child = kNoBlock;
    uint32_t visits = 0;
    if (root_child_ > kPending) {
      const Block block = at(root_child_);
      const uint32_t count = block.header().count;
      uint32_t i = 0;
      while (i < count && !(this->action(block, i) == action)) {
        ++i;
      }
      check(i < count || kGrows || root_->player() == kChance,
            "search: advance({}): not a legal action at the root", action_text(*root_, action));
      if (i < count) {
        child = block.children()[i];
        visits = block.visits()[i];
      }
    } else if (root_->player() >= 0 && !kSamples) {
      ActionBufferOf<S> legal;
      root_->legal(legal);
      bool found = false;
      for (const A& a : legal) {
        found = found || a == action;
      }
      check(found, "search: advance({}): not a legal action at the root",
            action_text(*root_, action));
    }
    root_->apply(action);
    ++generation_;
    full_ = stuck_ = false;
    gumbel_.clear();
    root_visits_ = visits;
    if (child > kPending) {
      root_child_ = compact(arena_, format_, child);
      edges_ = static_cast<uint32_t>(count_edges(arena_, root_child_));
    } else {
      arena_.reset();
      root_child_ = kNoBlock;
      edges_ = 0;
    }
  }

  // Called before the simulations of a run: draws root noise, plans sequential halving for `simulations`.
  void begin_run(uint64_t run, int64_t simulations) {
    run_ = random_.split(~run);
    planned_ = simulations;
    if (root_child_ > kPending) {
      prepare_root();
    }
  }

  template <Access kAccess>
  Outcome descend(Descent& d, uint64_t simulation, bool eager);

  // Gives the leaf its block (eager descents) and backs each of `values` up, as a visit of its own; more than one only
  // where no marks are used. Throws Error for values or priors that are not numbers.
  template <Access kAccess>
  void finish(Descent& d, std::span<const Values> values);
  template <Access kAccess>
  void finish(Descent& d) {
    finish<kAccess>(d, {&d.item.values, 1});
  }

  // Writes what a thread gathered in a shared tree.
  void settle(Descent& d);
  // The same, and gives back what is left of the thread's memory: its last words about this tree.
  void retire(Descent& d);

  // True where threads may work by subtrees (tree_claim.h) in this tree. Not below chance: a batch there would weigh one
  // outcome more, the more it was drawn before.
  bool claims() const { return kGathers && !config_.solve && !meets_chance(*root_); }
  // Up to `most` simulations of a thread that works by subtrees, of numbers `simulation` and up; `inner` is its own too.
  // Returns how many were made: 0 where another thread has the subtree.
  template <class Evaluate>
  uint32_t simulate(Descent& d, Descent& inner, uint64_t simulation, uint32_t most,
                    const Evaluate& evaluate);
  // The number of threads decides how many nodes are open. Every thread may pass the root from now on.
  void open_root(int64_t threads);

  // Takes back the marks of a descent that will not be finished.
  template <Access kAccess>
  void abandon(Descent& d);

  // A block did not fit; leaves are evaluated without being expanded until prune().
  bool full() const { return read<Access::kShared>(&full_); }
  // Frees about half of the memory by dropping the least visited nodes.
  void prune() {
    if (root_child_ > kPending) {
      root_child_ =
          compact(arena_, format_, root_child_, pruning_threshold(arena_, format_, root_child_));
      edges_ = static_cast<uint32_t>(count_edges(arena_, root_child_));
    }
    full_ = stuck_ = arena_.used_bytes() > arena_.limit_bytes() / 4 * 3;
  }
  // True where pruning would help; false again once it was tried in vain or given up.
  bool wants_room() const { return full() && !stuck_; }
  void stop_growing() { stuck_ = true; }

  size_t used_bytes() const { return arena_.used_bytes(); }
  uint64_t count_nodes() const { return 1 + uint64_t{edges_}; }
  bool root_solved() const {
    const uint32_t root = read_child<Access::kShared>(&root_child_);
    return config_.solve && root > kPending &&
           Solver::template bounds<Access::kShared>(at(root), format_).solved(mover());
  }
  // The most visited root edge; also while others search.
  uint32_t leader() const {
    const uint32_t root = read_child<Access::kShared>(&root_child_);
    uint32_t best = 0;
    if (root > kPending) {
      const Block block = at(root);
      for (uint32_t i = 1; i < block.header().count; ++i) {
        if (read<Access::kShared>(block.visits() + i) >
            read<Access::kShared>(block.visits() + best)) {
          best = i;
        }
      }
    }
    return best;
  }
  std::optional<size_t> gumbel_edge() const {
    if (!gumbel_.planned() || root_child_ <= kPending) {
      return std::nullopt;
    }
    return gumbel_.final_edge(at(root_child_), format_);
  }

  std::vector<RootEdge<A>> root_edges() const;
  std::vector<A> principal_variation() const;
  double root_value() const;
  const SearchConfig& config() const { return config_; }
  const Arena& arena() const { return arena_; }
  const BlockFormat& format() const { return format_; }
  uint32_t root_block() const { return root_child_; }
  A action(const Block& block, uint32_t edge) const {
    const std::byte* from = block.actions(format_) + size_t{kActionBytes} * edge;
    if constexpr (kActionBytes == 1) {
      return static_cast<A>(*from);
    } else if constexpr (kActionBytes == 2) {
      uint16_t small = 0;
      std::memcpy(&small, from, sizeof small);
      return static_cast<A>(small);
    } else {
      A a;
      std::memcpy(&a, from, sizeof a);
      return a;
    }
  }
  int mover() const { return std::max(root_->player(), 0); }

 private:
  using Solver = SolverBounds<S>;
  using AliasedCount = uint32_t __attribute__((may_alias));
  static constexpr bool kKeepsMoves = prefers_undo<S>() || Columns::kAmaf;

  Block at(uint32_t index) const {
    Block block(arena_.at(index));
    if constexpr (kGrows) {
      while ((block.header().flags & kMovedFlag) != 0) {
        block = Block(arena_.at(load_word(index)));
        index = load_word(index);
      }
    }
    return block;
  }
  uint32_t load_word(uint32_t index) const {
    uint32_t word = 0;
    std::memcpy(&word, arena_.at(index), sizeof word);
    return word;
  }
  uint32_t* slot(const Descent& d) {
    if (d.path.empty()) {
      return &root_child_;
    }
    const Step& last = d.path[d.path.size() - 1];
    return at(last.block).children() + last.edge;
  }

  void store_action(const Block& block, uint32_t edge, A action) {
    std::byte* to = block.actions(format_) + size_t{kActionBytes} * edge;
    if constexpr (kActionBytes < sizeof(A)) {
      check(action < S::kMaxActions, "game: action {} is not below kMaxActions {}", action,
            S::kMaxActions);
      if constexpr (kActionBytes == 1) {
        *to = static_cast<std::byte>(action);
      } else {
        const auto small = static_cast<uint16_t>(action);
        std::memcpy(to, &small, sizeof small);
      }
    } else {
      std::memcpy(to, &action, sizeof action);
    }
  }

  void enter(Descent& d, uint64_t simulation, uint32_t* origin);
  void enter_root(Descent& d, uint64_t simulation);
  template <Access kAccess>
  Outcome go_down(Descent& d, uint32_t* slot, uint32_t visits, bool eager);
  template <Access kAccess>
  uint32_t expand(Descent& d, uint32_t* slot, int player);
  // The place of a block of so many words, 0 where memory is full.
  template <Access kAccess>
  uint32_t allocate(Descent& d, uint32_t words);
  template <Access kAccess>
  uint32_t build(Descent& d, int player, std::span<const A> actions, uint32_t capacity);
  void store_priors(Descent& d, const Block& block);
  template <Access kAccess>
  uint32_t choose(Descent& d, uint32_t* slot, uint32_t& index, uint32_t visits);
  template <Access kAccess>
  uint32_t pick(const Block& block, float visits, uint32_t limit);
  template <Access kAccess>
  void choose_ahead(const Descent& d);
  Outcome claim(uint32_t index);
  uint32_t choose_chance(Descent& d, uint32_t* slot, uint32_t& index);
  uint32_t find(const Block& block, A action) const;
  uint32_t append(Descent& d, uint32_t* slot, uint32_t& index, A action);
  template <Access kAccess>
  Care mark(const Block& block, uint32_t edge, uint32_t visits);
  void gather(Descent& d, const Step& step, float value);
  template <Access kAccess>
  Values back_up(Descent& d, Values value);
  void mark_path(Descent& d, uint32_t many);
  void unmark(Descent& d, size_t from, size_t to);
  void back_up_open(Descent& d, Values total, uint32_t many);
  static void check_values(const Descent& d, const Values& values);
  template <Access kAccess>
  void back_up_bounds(Descent& d, const Values& exact);
  void start_amaf(Descent& d);
  template <Access kAccess>
  void back_up_amaf(Descent& d, const Block& block, size_t step, float value);
  void pass_chance(Descent& d);
  void leave(Descent& d);
  void prepare_root();
  void prepare_block(const Block& block);

  SearchConfig config_;
  typename P::Select select_;
  typename P::Expand expand_;
  typename P::Backup backup_;
  Random random_;
  Random run_{0};
  float virtual_loss_;
  float discount_;
  BlockFormat format_;
  Arena arena_;
  std::optional<S> root_;
  uint64_t generation_ = 0;
  uint32_t root_child_ = kNoBlock;
  int64_t planned_ = 0;
  uint32_t open_share_ = 64;  // a node with this part of all visits is opened to all threads
  bool full_ = false;
  bool stuck_ = false;
  uint64_t noised_ = 0;  // generation whose root has its noise
  GumbelRoot gumbel_;
  GumbelScale gumbel_scale_;
  // Written by every thread: away from what all of them read.
  alignas(64) uint32_t root_visits_ = 0;
  uint32_t edges_ = 0;
};

}  // namespace mstrain::mcts

#include "mcts/search/tree_backup.h"   // IWYU pragma: export
#include "mcts/search/tree_claim.h"    // IWYU pragma: export
#include "mcts/search/tree_descend.h"  // IWYU pragma: export
#include "mcts/search/tree_root.h"     // IWYU pragma: export
