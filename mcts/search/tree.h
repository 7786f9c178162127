// One search tree: descend to a leaf, expand it, back its value up. What drives it (budgets, threads, batches) is search.h
// and batch_search.h.
//
// A descent follows edges from the root, applying their actions to a copy of the root state, until it meets a terminal
// state (values known), or a node without a block. Plain rollouts expand such a node on its second visit, so that leaves cost
// nothing but their edge; evaluators with priors fill the block from the evaluation itself. Chance states are never
// evaluated: they are expanded at once and passed.
#pragma once

#include <array>
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
#include "mcts/search/bounds.h"
#include "mcts/search/choose.h"
#include "mcts/search/descent.h"
#include "mcts/search/gumbel_policy.h"
#include "mcts/search/policies.h"
#include "mcts/search/tree_blocks.h"

namespace mstrain::mcts {

template <GameState S, class P>
class Tree : public TreeBlocks {
 public:
  using A = ActionOf<S>;
  using Values = ReturnsOf<S>;
  using Columns = ColumnsOf<P>;
  using Descent = DescentOf<S>;
  using Step = typename Descent::Step;
  static constexpr bool kSamples = P::Expand::kSamples && HasSampleAction<S>;
  static constexpr bool kGrows = kSamples || (HasSampleChance<S> && !HasChance<S>);
  // Actions below a known number are kept in as many bytes as they need.
  static constexpr uint32_t bytes_below(uint32_t actions) {
    return actions <= 256 ? 1 : actions <= 65536 ? 2 : sizeof(A);
  }
  static constexpr uint32_t kActionBytes = [] {
    if constexpr (HasDenseActions<S>) {
      return bytes_below(S::kMaxActions);
    } else {
      return static_cast<uint32_t>(sizeof(A));
    }
  }();
  // Where the root says how many there are.
  static constexpr bool kCountsActions = HasCountedActions<S> && !HasDenseActions<S>;
  static constexpr bool kExplores = requires(const typename P::Select& select, Random& rng) {
    select.explore(rng);
  };
  // One thread that finishes each descent before the next may choose the edges of the next one while it backs a value up:
  // the choices at all nodes of the path are then independent of each other, and the way down is a chain of loads.
  static constexpr bool kAhead = !P::kGumbel && !kSamples && !kExplores;

  // In a shared tree, visits from which an edge is not marked any more, and from which its results are gathered (Care).
  static constexpr uint32_t kMarkBelow = 64;
  static constexpr uint32_t kGatherFrom = 1024;
  // Sums can be gathered where nothing but a sum is kept.
  static constexpr bool kGathers =
      std::is_same_v<typename P::Backup, MeanBackup> && Columns::kCount == 0;
  using Sums = std::array<double, S::kPlayers>;

  // Trees with different numbers draw different random numbers.
  Tree(const SearchConfig& config, uint64_t number)
      : TreeBlocks(config, kGrows),
        config_(config),
        select_(config),
        expand_(config),
        backup_(config),
        random_(config.seed, number),
        virtual_loss_(static_cast<float>(config.virtual_loss)),
        discount_(static_cast<float>(config.discount)) {
    check(!(config.solve && config.discount != 1), "search.solve: proven values need discount 1");
    check(!(config.solve && P::kGumbel), "search.solve: Gumbel selection takes no proven values");
    check(config.first_play == FirstPlay::kDefault || values_first_play<P>(),
          "search.first_play: this policy has a rule of its own for unvisited actions; uct, "
          "uct_tuned, wu_uct, widening, "
          "puct and graph take one");
    gumbel_scale_ = {static_cast<float>(config.gumbel_visit),
                     static_cast<float>(config.gumbel_scale)};
    format_ = {.policy_columns = Columns::kCount,
               .bound_columns = 0,  // as the root says
               .prior_bytes = Columns::kPrior ? 2U : 0U,
               .action_bytes = kActionBytes,
               .trailer_words = P::kGumbel ? 1U : 0U};
  }

  // Forgets the tree and takes a new root. Throws Error where the configuration does not fit the game.
  void set_root(const S& root) {
    pays_ = pays_rewards(root);
    samples_ = kSamples && samples_actions(root);
    undoes_ = prefers_undo(root);
    check(!(config_.solve && pays_), "search.solve: proven values need a game without rewards");
    check(!(config_.solve && samples_), "search.solve: sampled actions are not all that there are");
    check(!(config_.solve && HasSampleChance<S> && !HasChance<S> && meets_chance(root)),
          "search.solve: chance that is only drawn is not all that there is; it needs chance()");
    solver_ = Solver(root);
    check(!config_.solve || solver_.least() < solver_.most(),
          "search.solve: proven values need the range of the game's results; it is [{}, {}]",
          solver_.least(), solver_.most());
    format_.bound_columns = config_.solve ? solver_.columns() : 0;
    if constexpr (kCountsActions) {
      format_.action_bytes = bytes_below(root.max_actions());
    }
    root_.emplace(root);
    ++generation_;
    clear();
    counts_.root_visits = 0;
    full_ = stuck_ = false;
    gumbel_.clear();
  }
  // From now on draws the numbers of tree `number`.
  void reseed(uint64_t number) { random_ = Random(config_.seed, number); }
  bool has_root() const { return root_.has_value(); }
  // True where blocks get edges after they were made.
  static bool grows(const S& root) {
    return kGrows && (!kSamples || samples_actions(root) || (HasSampleChance<S> && !HasChance<S>));
  }
  const S& root() const { return *root_; }

  // Makes the child by `action` the root and keeps what was found below it. The action must be legal where the root
  // was expanded with all its actions; Error otherwise.
  void advance(A action) {
    check(root_.has_value(), "search: advance() before any run");
    check(root_->player() != kTerminal, "search: advance() on a finished game");
    uint32_t child = kNoBlock;
    uint64_t visits = 0;
    if (root_child_ > kPending) {
      const Block block = at(root_child_);
      const uint32_t count = block.header().count;
      uint32_t i = 0;
      while (i < count && !(this->action(block, i) == action)) {
        ++i;
      }
      check(i < count || grows(*root_) || root_->player() == kChance,
            "search: advance({}): not a legal action at the root", action_text(*root_, action));
      if (i < count) {
        child = block.children()[i];
        visits = visits_of(root_child_, i);
      }
    } else if (root_->player() >= 0 && !samples_) {
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
    counts_.root_visits = visits;
    if (child > kPending) {
      keep(child, 0);
    } else {
      clear();
    }
  }

  // Called before the simulations of a run: draws root noise, plans sequential halving for `simulations`.
  void begin_run(uint64_t run, int64_t simulations) {
    by_subtrees_ = false;
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

  // True where threads may work by subtrees (tree_claim.h) in this tree. Not below chance: a batch there would weigh one
  // outcome more, the more it was drawn before.
  bool claims() const { return kGathers && !config_.solve && !meets_chance(*root_); }
  // Up to `most` simulations of a thread that works by subtrees, of numbers `simulation` and up; `inner` is its own too.
  // Returns how many were made: 0 where another thread has the subtree.
  template <class Evaluate>
  uint32_t simulate(Descent& d, Descent& inner, uint64_t simulation, uint32_t most,
                    const Evaluate& evaluate);

  // Takes back the marks of a descent that will not be finished.
  template <Access kAccess>
  void abandon(Descent& d);

  bool root_solved() const {
    const uint32_t root = read_child<Access::kShared>(&root_child_);
    return config_.solve && root > kPending &&
           solver_.solved(solver_.bounds(at(root), format_), mover());
  }
  std::optional<size_t> gumbel_edge() const {
    if (!gumbel_.planned() || root_child_ <= kPending) {
      return std::nullopt;
    }
    return gumbel_.final_edge(at(root_child_), format_);
  }

  std::vector<RootEdge<A>> root_edges() const;
  std::vector<A> principal_variation(size_t first) const;  // `first`: the edge that is played
  double root_value() const;
  const SearchConfig& config() const { return config_; }
  A action(const Block& block, uint32_t edge) const {
    const uint32_t bytes = kCountsActions ? format_.action_bytes : kActionBytes;
    const std::byte* from = block.actions(format_) + size_t{bytes} * edge;
    if constexpr (std::is_integral_v<A>) {
      if (bytes == 1) {
        return static_cast<A>(*from);
      }
      if (bytes == 2) {
        uint16_t small = 0;
        std::memcpy(&small, from, sizeof small);
        return static_cast<A>(small);
      }
    }
    A a;
    std::memcpy(&a, from, sizeof a);
    return a;
  }
  int mover() const { return std::max(root_->player(), 0); }
  float least_return() const { return solver_.least(); }
  float most_return() const { return solver_.most(); }

 private:
  using Solver = SolverBounds<S>;
  using AliasedCount = uint32_t __attribute__((may_alias));
  static constexpr bool kMayUndo = prefers_undo<S>() || MayPreferUndo<S>;
  static constexpr bool kKeepsMoves = kMayUndo || Columns::kAmaf;
  bool undoes() const {
    if constexpr (MayPreferUndo<S>) {
      return undoes_;
    } else {
      return prefers_undo<S>();
    }
  }

  // True where every edge of a node is visited before one is visited twice.
  bool opens_first() const {
    if constexpr (P::Select::kOpening != Opening::kFirst) {
      return false;
    } else if constexpr (values_first_play<P>()) {
      return select_.opens_first();
    } else {
      return true;
    }
  }

  Block at(uint32_t index) const {
    if constexpr (kGrows) {
      return block_at(index);
    } else {
      return Block(arena_.at(index));
    }
  }

  void store_action(const Block& block, uint32_t edge, A action) {
    const uint32_t bytes = kCountsActions ? format_.action_bytes : kActionBytes;
    std::byte* to = block.actions(format_) + size_t{bytes} * edge;
    if constexpr (NumbersActions<S> && std::is_integral_v<A>) {
      if (bytes < sizeof(A)) {
        const uint32_t most = max_actions_of(*root_);
        check(action < most, "game: action {} is not below kMaxActions {}", action, most);
        if (bytes == 1) {
          *to = static_cast<std::byte>(action);
        } else {
          const auto small = static_cast<uint16_t>(action);
          std::memcpy(to, &small, sizeof small);
        }
        return;
      }
    }
    std::memcpy(to, &action, sizeof action);
  }

  void enter(Descent& d, uint64_t simulation, uint64_t* origin);
  void enter_root(Descent& d, uint64_t simulation);
  template <Access kAccess>
  Outcome go_down(Descent& d, uint32_t* slot, uint64_t visits, bool eager);
  template <Access kAccess>
  uint32_t expand(Descent& d, uint32_t* slot, int player);
  uint32_t build(Descent& d, int player, std::span<const A> actions, uint32_t capacity,
                 bool shared);
  void store_priors(Descent& d, const Block& block);
  template <Access kAccess>
  uint32_t choose(Descent& d, uint32_t* slot, uint32_t& index, uint64_t visits);
  template <Access kAccess, bool kHot>
  uint32_t pick(Block block, typename P::Select::Node node, uint32_t limit);
  void choose_ahead(Descent& d);
  uint32_t choose_chance(Descent& d, uint32_t* slot, uint32_t& index);
  uint32_t find(const Block& block, A action) const;
  uint32_t append(Descent& d, uint32_t* slot, uint32_t& index, A action);
  template <Access kAccess>
  Care mark(uint32_t index, const Block& block, uint32_t edge, uint32_t visits);
  template <Access kAccess>
  Values back_up(Descent& d, Values value);
  void back_up_open(Descent& d, Sums total, uint32_t many);
  void check_values(const Descent& d, const Values& values) const;
  void back_up_bounds(Descent& d, const Values& exact);
  void start_amaf(Descent& d);
  template <Access kAccess>
  void back_up_amaf(Descent& d, const Step& step, const Block& block, A taken, float value);
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
  std::optional<S> root_;
  uint64_t generation_ = 0;
  int64_t planned_ = 0;
  Solver solver_;
  bool pays_ = false;
  bool samples_ = false;
  bool undoes_ = false;
  uint64_t noised_ = 0;  // generation whose root has its noise
  GumbelRoot gumbel_;
  GumbelScale gumbel_scale_;
};

}  // namespace mstrain::mcts

#include "mcts/search/tree_backup.h"   // IWYU pragma: export
#include "mcts/search/tree_claim.h"    // IWYU pragma: export
#include "mcts/search/tree_descend.h"  // IWYU pragma: export
#include "mcts/search/tree_root.h"     // IWYU pragma: export
