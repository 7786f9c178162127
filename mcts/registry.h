// Searches by name, for configurations and plug-ins: each name stands for a bundle of policies that is compiled in whole, so a
// virtual call is paid once for a run and once for each evaluator batch, never in the tree.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mcts/any_evaluator.h"
#include "mcts/search/graph_search.h"
#include "mcts/search/keyed_search.h"
#include "mcts/search/search.h"
#include "mcts/search/self_play.h"

namespace mstrain::mcts {

// A Search whose policies were chosen at run time; see search.h for what the members do.
template <GameState S>
class AnySearch {
 public:
  using A = ActionOf<S>;
  using Result = SearchResult<A, S::kPlayers>;
  virtual ~AnySearch() = default;
  virtual void set_root(const S& root) = 0;
  virtual void advance(A action) = 0;
  virtual Result run(AnyEvaluator<S>& evaluator, const Budget& budget) = 0;
  virtual size_t gather(EvalBatch<S>& batch, size_t max_leaves, const Budget& budget) = 0;
  virtual void scatter(const EvalBatch<S>& batch) = 0;
  virtual Result result() const = 0;
};

template <GameState S, class P>
class SearchWith final : public AnySearch<S> {
 public:
  using typename AnySearch<S>::A;
  using typename AnySearch<S>::Result;
  explicit SearchWith(const SearchConfig& config) : search_(config) {}
  void set_root(const S& root) override { search_.set_root(root); }
  void advance(A action) override { search_.advance(action); }
  Result run(AnyEvaluator<S>& evaluator, const Budget& budget) override {
    return search_.run(evaluator, budget);
  }
  size_t gather(EvalBatch<S>& batch, size_t max_leaves, const Budget& budget) override {
    return search_.gather(batch, max_leaves, budget);
  }
  void scatter(const EvalBatch<S>& batch) override { search_.scatter(batch); }
  Result result() const override { return search_.result(); }

 private:
  Search<S, P> search_;
};

// A search of nodes that are found by a key, which keeps nothing from one root to the next.
template <GameState S, Keying kKeying>
class KeyedSearchWith final : public AnySearch<S> {
 public:
  using typename AnySearch<S>::A;
  using typename AnySearch<S>::Result;
  explicit KeyedSearchWith(const SearchConfig& config) : search_(config) {}
  void set_root(const S& root) override {
    root_.emplace(root);
    result_ = {};
  }
  void advance(A action) override {
    check(root_.has_value(), "search: advance() before any run");
    ActionBufferOf<S> legal;
    ChanceBufferOf<S> outcomes;
    if (root_->player() >= 0) {
      root_->legal(legal);
    } else if (root_->player() == kChance) {
      root_->chance(outcomes);
      for (const auto& outcome : outcomes) {
        legal.push(outcome.action);
      }
    }
    check(std::find(legal.begin(), legal.end(), action) != legal.end(),
          "search: advance({}): not a legal action at the root", action_text(*root_, action));
    root_->apply(action);
    result_ = {};
  }
  Result run(AnyEvaluator<S>& evaluator, const Budget& budget) override {
    check(root_.has_value(), "search: a run without a root; call set_root() first");
    result_ = {};  // where it throws
    return result_ = search_.run(*root_, evaluator, budget);
  }
  size_t gather(EvalBatch<S>&, size_t, const Budget&) override {
    fail("search: information sets and open loop are searched by run() alone");
  }
  void scatter(const EvalBatch<S>&) override {
    fail("search: information sets and open loop are searched by run() alone");
  }
  Result result() const override { return result_; }

 private:
  KeyedSearch<S, kKeying> search_;
  std::optional<S> root_;
  Result result_;
};

template <GameState S>
class GraphSearchWith final : public AnySearch<S> {
 public:
  using typename AnySearch<S>::A;
  using typename AnySearch<S>::Result;
  explicit GraphSearchWith(const SearchConfig& config) : search_(config) {}
  void set_root(const S& root) override {
    result_ = {};
    search_.set_root(root);
  }
  void advance(A action) override {
    result_ = {};
    search_.advance(action);
  }
  Result run(AnyEvaluator<S>& evaluator, const Budget& budget) override {
    result_ = {};  // where it throws
    return result_ = search_.run(evaluator, budget);
  }
  size_t gather(EvalBatch<S>&, size_t, const Budget&) override {
    fail("search: a graph is searched by run() alone");
  }
  void scatter(const EvalBatch<S>&) override { fail("search: a graph is searched by run() alone"); }
  Result result() const override { return result_; }

 private:
  GraphSearch<S> search_;
  Result result_;
};

struct UctTunedPolicies : UctPolicies {
  using Select = Ucb1Tuned;
};
struct RavePolicies : UctPolicies {
  using Select = Rave;
};
struct EpsilonGreedyPolicies : UctPolicies {
  using Select = EpsilonGreedy;
};
struct GumbelPolicies : PuctPolicies {
  static constexpr bool kGumbel = true;
};
struct WuUctPolicies : UctPolicies {
  using Collide = WuUct;
};
struct WideningPolicies : UctPolicies {
  using Expand = Widen;
};

// A bundle of policies as the registry calls it. Where a program uses many, each may be compiled in a file of its own by
// explicit instantiation (any_search.h).
template <GameState S, class P>
struct PolicyBundle {
  static std::unique_ptr<AnySearch<S>> make(const SearchConfig& config);
  static SearchCounters play(const SearchConfig& config, const SelfPlayOptions& options,
                             const std::function<S(int64_t)>& start, AnyEvaluator<S>& evaluator,
                             const std::function<void(PlayedGame<S>&&)>& sink);
};

template <GameState S, class P>
std::unique_ptr<AnySearch<S>> PolicyBundle<S, P>::make(const SearchConfig& config) {
  return std::make_unique<SearchWith<S, P>>(config);
}

template <GameState S, class P>
SearchCounters PolicyBundle<S, P>::play(const SearchConfig& config, const SelfPlayOptions& options,
                                        const std::function<S(int64_t)>& start,
                                        AnyEvaluator<S>& evaluator,
                                        const std::function<void(PlayedGame<S>&&)>& sink) {
  return mcts::self_play<P, S>(config, options, start, evaluator, sink);
}

// Starts with uct (also as ucb1), uct_tuned (also as ucb1_tuned), puct, gumbel, rave (games that number their actions),
// epsilon_greedy, wu_uct, widening; graph where the game has hash(), information_set where it has hidden information, open_loop
// where it lists chance.
template <GameState S>
class SearchRegistry {
 public:
  using Sink = std::function<void(PlayedGame<S>&&)>;

  SearchRegistry() {
    add<UctPolicies>("uct");
    add<UctPolicies>("ucb1");
    add<UctTunedPolicies>("uct_tuned");
    add<UctTunedPolicies>("ucb1_tuned");
    add<PuctPolicies>("puct");
    add<GumbelPolicies>("gumbel");
    if constexpr (NumbersActions<S>) {
      add<RavePolicies>("rave");
    }
    add<EpsilonGreedyPolicies>("epsilon_greedy");
    add<WuUctPolicies>("wu_uct");
    add<WideningPolicies>("widening");
    if constexpr (HasHash<S>) {
      add("graph", make<GraphSearchWith<S>>, nullptr);
    }
    if constexpr (HasInformation<S>) {
      add("information_set", make<KeyedSearchWith<S, Keying::kInformation>>, nullptr);
    }
    if constexpr (HasChance<S>) {
      add("open_loop", make<KeyedSearchWith<S, Keying::kOpenLoop>>, nullptr);
    }
  }

  // A bundle of your own. A name that is taken is an Error.
  template <class P>
  void add(const std::string& name) {
    add(name, &PolicyBundle<S, P>::make, &PolicyBundle<S, P>::play);
  }

  // Throws Error for a name that nobody added.
  std::unique_ptr<AnySearch<S>> make(const std::string& name, const SearchConfig& config) const {
    return find(name).make(config);
  }
  // self_play() of the policies of that name: many games, one evaluator batch.
  SearchCounters self_play(const std::string& name, const SearchConfig& config,
                           const SelfPlayOptions& options, const std::function<S(int64_t)>& start,
                           AnyEvaluator<S>& evaluator, const Sink& sink) const {
    const Bundle& bundle = find(name);
    check(bundle.play != nullptr, "search: {} plays no games in batches", name);
    return bundle.play(config, options, start, evaluator, sink);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, bundle] : bundles_) {
      all.push_back(name);
    }
    return all;
  }

 private:
  struct Bundle {
    std::unique_ptr<AnySearch<S>> (*make)(const SearchConfig&);
    SearchCounters (*play)(const SearchConfig&, const SelfPlayOptions&,
                           const std::function<S(int64_t)>&, AnyEvaluator<S>&, const Sink&);
  };
  template <class With>
  static std::unique_ptr<AnySearch<S>> make(const SearchConfig& config) {
    return std::make_unique<With>(config);
  }
  void add(const std::string& name, decltype(Bundle::make) make, decltype(Bundle::play) play) {
    check(bundles_.emplace(name, Bundle{make, play}).second, "search registry: {} is there already",
          name);
  }
  const Bundle& find(const std::string& name) const {
    const auto bundle = bundles_.find(name);
    if (bundle == bundles_.end()) {
      const std::vector<std::string> all = names();
      fail("search: there is no policy {}{}", name, did_you_mean(name, all));
    }
    return bundle->second;
  }

  std::map<std::string, Bundle> bundles_;
};

}  // namespace mstrain::mcts
