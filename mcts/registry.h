// Searches by name, for configurations and plug-ins: each name stands for a bundle of policies that is compiled in whole, so a
// virtual call is paid once for a run and once for each evaluator batch, never in the tree.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mcts/search/search.h"
#include "mcts/search/self_play.h"

namespace mstrain::mcts {

// Any evaluator behind a function. Serialised where it is not thread-safe.
template <GameState S>
class AnyEvaluator {
 public:
  template <Evaluator<S> E>
  explicit AnyEvaluator(E& evaluator)
      : function_([&evaluator](EvalBatch<S>& batch) { evaluator.evaluate(batch); }),
        priors_(gives_priors<E>()),
        threads_(is_thread_safe<E>()) {}

  bool priors() const { return priors_; }
  void evaluate(EvalBatch<S>& batch) {
    if (threads_) {
      function_(batch);
    } else {
      const std::lock_guard lock(mutex_);
      function_(batch);
    }
  }

 private:
  std::function<void(EvalBatch<S>&)> function_;
  bool priors_;
  bool threads_;
  std::mutex mutex_;
};

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
  virtual size_t gather(EvalBatch<S>& batch, size_t max_leaves) = 0;
  virtual void scatter(const EvalBatch<S>& batch) = 0;
  virtual Result result() const = 0;
};

// AnyEvaluator as a search sees an evaluator that gives priors, or none.
template <GameState S, bool kWithPriors>
struct AnyEvaluatorAs {
  static constexpr bool kPriors = kWithPriors;
  static constexpr bool kThreads = true;
  AnyEvaluator<S>& evaluator;
  void evaluate(EvalBatch<S>& batch) { evaluator.evaluate(batch); }
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
    if (evaluator.priors()) {
      AnyEvaluatorAs<S, true> as{evaluator};
      return search_.run(as, budget);
    }
    AnyEvaluatorAs<S, false> as{evaluator};
    return search_.run(as, budget);
  }
  size_t gather(EvalBatch<S>& batch, size_t max_leaves) override {
    return search_.gather(batch, max_leaves);
  }
  void scatter(const EvalBatch<S>& batch) override { search_.scatter(batch); }
  Result result() const override { return search_.result(); }

 private:
  Search<S, P> search_;
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

// Starts with uct (also as ucb1), uct_tuned (also as ucb1_tuned), puct, gumbel, rave (games that number their actions),
// epsilon_greedy, wu_uct, widening.
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
  }

  // A bundle of your own. A name that is taken is an Error.
  template <class P>
  void add(const std::string& name) {
    const bool is_new =
        bundles_
            .emplace(name, Bundle{[](const SearchConfig& config) {
                                    return std::make_unique<SearchWith<S, P>>(config);
                                  },
                                  &SearchRegistry::template play_with<P>})
            .second;
    check(is_new, "search registry: {} is there already", name);
  }

  // Throws Error for a name that nobody added.
  std::unique_ptr<AnySearch<S>> make(const std::string& name, const SearchConfig& config) const {
    return find(name).make(config);
  }
  // self_play() of the policies of that name: many games, one evaluator batch.
  SearchCounters self_play(const std::string& name, const SearchConfig& config,
                           const SelfPlayOptions& options, const std::function<S(int64_t)>& start,
                           AnyEvaluator<S>& evaluator, const Sink& sink) const {
    return find(name).play(config, options, start, evaluator, sink);
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
    std::function<std::unique_ptr<AnySearch<S>>(const SearchConfig&)> make;
    SearchCounters (*play)(const SearchConfig&, const SelfPlayOptions&,
                           const std::function<S(int64_t)>&, AnyEvaluator<S>&, const Sink&);
  };
  template <class P>
  static SearchCounters play_with(const SearchConfig& config, const SelfPlayOptions& options,
                                  const std::function<S(int64_t)>& start,
                                  AnyEvaluator<S>& evaluator, const Sink& sink) {
    if (evaluator.priors()) {
      AnyEvaluatorAs<S, true> as{evaluator};
      return mcts::self_play<P, S>(config, options, start, as, sink);
    }
    AnyEvaluatorAs<S, false> as{evaluator};
    return mcts::self_play<P, S>(config, options, start, as, sink);
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
