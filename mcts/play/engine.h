// One player of mcts_play that searches, and what it reports.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "mcts/any_search.h"
#include "mcts/evaluators.h"
#include "mcts/games/text.h"
#include "mcts/play/options.h"
#include "mcts/play/report.h"
#include "mcts/play/tree_painter.h"
#include "mcts/search/keyed_search.h"
#include "mcts/search/search.h"

namespace mstrain::mcts::play {

// What `player` may see of a position.
template <GameState S>
std::string drawing_for(const S& state, int player) {
  if constexpr (requires { state.draw_for(player); }) {
    return state.draw_for(player);
  } else {
    return state.draw();
  }
}

template <GameState S>
std::string position_text(const S& state) {
  if constexpr (HasPosition<S>) {
    return state.position();
  } else {
    return {};
  }
}

// One searching player, with the tree it keeps from move to move. Where a game hides something, the player searches with what
// it may know, anew for each move.
template <GameState S>
class Engine {
 public:
  using A = ActionOf<S>;

  Engine(const Options& options, uint64_t seed, int64_t simulations)
      : budget_(options.budget(simulations)) {
    rollout_.rollouts = options.rollouts;
    rollout_.discount = static_cast<float>(options.search.discount);
    const SearchConfig config = usable(options.search, seed);
    try {
      if constexpr (!kHidden) {
        if (options.policy != "uct") {
          named_ = any_searches().make(options.policy, config);
          return;
        }
      }
      if (options.policy != "uct") {
        throw ConfigError(fmt::format(
            "--policy: {} has hidden cards, which information-set search looks through; expected "
            "uct",
            S::kName));
      }
      search_.emplace(config);
    } catch (const ConfigError&) {
      throw;
    } catch (const Error& error) {  // choices that do not go together
      throw ConfigError(error.what());
    }
  }

  static constexpr bool kHidden = HasInformation<S>;

  void set_root(const S& state) {
    if constexpr (!kHidden) {
      if (named_) {
        named_->set_root(any_game(state));
      } else {
        search_->set_root(state);
      }
    }
    root_ = state;
  }
  void advance(A action) {
    if constexpr (!kHidden) {
      if (named_) {
        named_->advance(action);
      } else {
        search_->advance(action);
      }
    }
    root_->apply(action);
  }

  // The whole budget; `show`, where given, is called with what is known about ten times meanwhile.
  template <class Show>
  Analysis think(const Show& show) {
    constexpr int kParts = kHidden ? 1 : 10;
    Analysis out;
    for (int part = 0; part < kParts; ++part) {
      Budget share = budget_;
      share.simulations =
          budget_.simulations * (part + 1) / kParts - budget_.simulations * part / kParts;
      if (budget_.time) {
        share.time = *budget_.time / kParts;
      }
      if (budget_.simulations > 0 && share.simulations == 0) {
        continue;
      }
      const uint64_t before = out.simulations;
      const double seconds = out.seconds;
      out = report(run(share));
      out.simulations += before;
      out.seconds += seconds;
      show(out);
    }
    return out;
  }
  Analysis think() { return report(run(budget_)); }

  A chosen() const { return chosen_; }

  Picture picture(const Analysis& a, int64_t nodes) const {
    Picture out;
    out.title =
        fmt::format("{}, {} simulations, best action {}", S::kName, a.simulations, a.best_action);
    out.board = a.drawing;
    out.low = static_cast<double>(min_return<S>());
    out.high = static_cast<double>(max_return<S>());
    if constexpr (!kHidden) {
      if (search_) {
        out.root = TreePainter(search_->tree()).paint(nodes, a.value);
      }
    }
    if (kHidden || !search_) {  // no single tree, or one behind virtual calls: the root's actions
      out.root = {.player = -2, .visits = a.simulations, .value = a.value};
      for (const ActionRow& row : a.root) {
        out.root.children.push_back(
            {.action = row.action, .player = a.player, .visits = row.visits, .value = row.value});
      }
    }
    if constexpr (HasRewards<
                      S>) {  // results are open at the top, so the colours span what was found
      out.low = out.high = out.root.value;
      span_of(out.root, out.low, out.high);
    }
    return out;
  }

 private:
  using SearchOf = std::conditional_t<kHidden, InformationSearch<S>, Search<S>>;
  using Result = SearchResult<A, AnyGame::kPlayers>;

  // No result tells the number of players otherwise.
  static Result widen(const SearchResult<A, S::kPlayers>& r) {
    return {r.action,     r.value, r.edges, r.principal_variation, r.counters, r.nodes,
            r.tree_bytes, r.stop,  r.proven};
  }
  Result run(const Budget& budget) {
    if constexpr (kHidden) {
      return widen(search_->run(*root_, rollout_, budget));
    } else if (named_) {
      AnyEvaluator<AnyGame> any(rollout_);
      return named_->run(any, budget);
    } else {
      return widen(search_->run(rollout_, budget));
    }
  }
  static SearchConfig usable(SearchConfig config, uint64_t seed) {
    if (config.solve && (kHidden || HasRewards<S>)) {
      throw ConfigError(fmt::format(
          "--solve: {} has hidden cards or rewards on the way, where nothing is proven", S::kName));
    }
    if (kHidden && config.parallelism != Parallelism::kSerial) {
      throw ConfigError(fmt::format(
          "--parallelism: {} has hidden cards, which one thread searches; expected serial",
          S::kName));
    }
    config.seed = seed;
    return config;
  }
  static void span_of(const PictureNode& node, double& low, double& high) {
    low = std::min(low, node.value - 1e-6);
    high = std::max(high, node.value + 1e-6);
    for (const PictureNode& child : node.children) {
      span_of(child, low, high);
    }
  }

  Analysis report(const Result& result) {
    const S& root = *root_;
    Analysis out;
    out.game = S::kName;
    out.position = position_text(root);
    out.drawing = drawing_for(root, root.player());
    out.player = root.player();
    out.value = result.value;
    out.proven = result.proven;
    out.simulations = result.counters.simulations;
    out.nodes = result.nodes;
    out.tree_bytes = result.tree_bytes;
    out.seconds = result.counters.seconds;
    ActionBufferOf<S> legal;
    root.legal(legal);
    const bool has_priors = std::any_of(result.edges.begin(), result.edges.end(),
                                        [](const auto& edge) { return edge.prior > 0; });
    const double uniform = 1.0 / static_cast<double>(legal.size());
    for (const A& action : legal) {
      const auto edge = std::find_if(result.edges.begin(), result.edges.end(),
                                     [&](const auto& each) { return each.action == action; });
      ActionRow row{.action = action_text(root, action), .prior = uniform};
      if (edge != result.edges.end()) {
        row.visits = edge->visits;
        row.value = edge->value;
        row.prior = has_priors ? edge->prior : uniform;
        row.proven = edge->proven;
      }
      out.root.push_back(row);
    }
    std::stable_sort(out.root.begin(), out.root.end(),
                     [](const ActionRow& a, const ActionRow& b) { return a.visits > b.visits; });
    chosen_ = result.action.value_or(legal[0]);  // a single simulation visits no action
    out.best_action = action_text(root, chosen_);
    S along = root;
    for (const A& action : result.principal_variation) {
      out.principal_variation.push_back(action_text(along, action));
      along.apply(action);
    }
    return out;
  }

  std::optional<SearchOf> search_;             // of the default policy,
  std::unique_ptr<AnySearch<AnyGame>> named_;  // or of another one
  RandomRollout rollout_;
  Budget budget_;
  std::optional<S> root_;
  A chosen_{};
};

}  // namespace mstrain::mcts::play
