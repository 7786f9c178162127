// The choices that make a search: each is a small class that is inlined into it. Replace any one in a struct like
// UctPolicies; the members used here say what yours must have.
//
// Select  scores the edges of a node; the largest score is followed, the first of equal ones.
//   static constexpr uint32_t kColumns       which columns it reads (below)
//   static constexpr Opening kOpening        what may be visited next among unvisited edges
//   explicit Select(const SearchConfig&)
//   Node node(float visits) const            what depends on the node alone
//   F score(const Edge<F>& e, const Node& n) const        as a template over F (float or several at once), or for float
//   F weight(F visits) const                 optional, as a template like score(): the one number that Node consists of
//   float unvisited(float prior, float node_value, float visited_share, const Node& n) const
//                                            score of the best unvisited edge: Opening::kBestPrior, and optional for kFirst
//   bool opens_first() const                 with unvisited() of kFirst: true where it is infinite
//   static constexpr bool kInverseRoot       optional: true where score() reads inverse_root; the mean then costs no division
//   bool explore(Random& rng) const          optional: true where a uniformly random edge is to be followed
// Expand  actions(state, out, rng) fills the edges of a new node; limit(visits) is how many of them may be open.
// Backup  sum(sum, visits, value): the new value sum of an edge whose visits, this one included, are `visits`; for floats and,
//         where an edge has many visits, for doubles.
// Final   choose(edges, rng): index of the action to play.
// Collide how visits under way are seen by others.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "mcts/game.h"
#include "mcts/search/config.h"
#include "mcts/search/pack.h"

namespace mstrain::mcts {

inline constexpr uint32_t kPriorColumn = 1;
inline constexpr uint32_t kAmafColumns = 2;   // all moves as first: visits and value sum
inline constexpr uint32_t kSquareColumn = 4;  // sum of squared values

// kFirst: an unvisited edge is followed before any visited one is scored, in the order of the block (random).
// kBestPrior: unvisited edges have equal values, so only the one with the largest prior need be looked at.
// kAll: every edge is scored, visited or not.
enum class Opening { kFirst, kBestPrior, kAll };

template <class F>
struct Edge {
  F visits;  // those under way included
  F mean;
  F inverse_root;  // 1 / sqrt(visits)
  F prior;
  F amaf_visits;
  F amaf_mean;
  F square_mean;
};

// SearchConfig::first_play.
class FirstPlayValue {
 public:
  FirstPlayValue(const SearchConfig& config, FirstPlay usual)
      : kind_(config.first_play == FirstPlay::kDefault ? usual : config.first_play),
        reduction_(static_cast<float>(config.first_play_reduction)) {}
  bool infinite() const { return kind_ == FirstPlay::kInfinite; }
  // node_value: mean over the visited edges; visited_share: what part of the priors they have.
  float operator()(float node_value, float visited_share) const {
    switch (kind_) {
      case FirstPlay::kParent: return node_value;
      case FirstPlay::kReduced: return node_value - reduction_ * square_root(visited_share);
      case FirstPlay::kLoss: return -1;
      case FirstPlay::kDraw: return 0;
      case FirstPlay::kDefault:
      case FirstPlay::kInfinite: break;
    }
    return std::numeric_limits<float>::infinity();
  }

 private:
  FirstPlay kind_;
  float reduction_;
};

// Auer, Cesa-Bianchi, Fischer, "Finite-time analysis of the multiarmed bandit problem" (2002).
struct Ucb1 {
  static constexpr uint32_t kColumns = 0;
  static constexpr Opening kOpening = Opening::kFirst;
  static constexpr bool kInverseRoot = true;
  struct Node {
    float exploration;
  };
  explicit Ucb1(const SearchConfig& config)
      : c(static_cast<float>(config.uct_c)), first_play(config, FirstPlay::kInfinite) {}
  template <class F>
  F weight(F visits) const {
    return c * square_root(larger(fast_log(visits), F{}));
  }
  Node node(float visits) const { return {weight(visits)}; }
  template <class F>
  F score(const Edge<F>& e, const Node& n) const {
    return e.mean + n.exploration * e.inverse_root;
  }
  bool opens_first() const { return first_play.infinite(); }
  // As after one visit of that value.
  float unvisited(float /*prior*/, float node_value, float visited_share, const Node& n) const {
    return first_play(node_value, visited_share) + n.exploration;
  }
  float c;
  FirstPlayValue first_play;
};

// UCB1-tuned of the same paper; values lie in a range of 2, so the variance is at most 1.
struct Ucb1Tuned {
  static constexpr uint32_t kColumns = kSquareColumn;
  static constexpr Opening kOpening = Opening::kFirst;
  struct Node {
    float log_visits;
  };
  explicit Ucb1Tuned(const SearchConfig& config)
      : c(static_cast<float>(config.uct_c)), first_play(config, FirstPlay::kInfinite) {}
  template <class F>
  F weight(F visits) const {
    return larger(fast_log(visits), F{});
  }
  Node node(float visits) const { return {weight(visits)}; }
  template <class F>
  F score(const Edge<F>& e, const Node& n) const {
    const F rate = n.log_visits / e.visits;
    const F variance = e.square_mean - e.mean * e.mean + square_root(2.0F * rate);
    return e.mean + c * square_root(rate * smaller(variance, F{} + 1.0F));
  }
  bool opens_first() const { return first_play.infinite(); }
  float unvisited(float /*prior*/, float node_value, float visited_share, const Node& n) const {
    const float value = first_play(node_value, visited_share);
    return score(Edge<float>{.visits = 1, .mean = value, .square_mean = value * value}, n);
  }
  float c;
  FirstPlayValue first_play;
};

// AlphaZero's rule (Silver et al., Science 2018, with the growing exploration of its pseudo-code).
struct Puct {
  static constexpr uint32_t kColumns = kPriorColumn;
  static constexpr Opening kOpening = Opening::kBestPrior;
  struct Node {
    float exploration;
  };
  explicit Puct(const SearchConfig& config)
      : c(static_cast<float>(config.puct_c)),
        base(static_cast<float>(config.puct_base)),
        first_play(config, FirstPlay::kReduced) {}
  template <class F>
  F weight(F visits) const {
    return (fast_log((1.0F + visits + base) / base) + c) * square_root(visits);
  }
  Node node(float visits) const { return {weight(visits)}; }
  template <class F>
  F score(const Edge<F>& e, const Node& n) const {
    return e.mean + n.exploration * e.prior / (e.visits + 1.0F);
  }
  float unvisited(float prior, float node_value, float visited_share, const Node& n) const {
    return first_play(node_value, visited_share) + n.exploration * prior;
  }
  float c;
  float base;
  FirstPlayValue first_play;
};

// Gelly and Silver, "Monte-Carlo tree search and rapid action value estimation in computer Go" (2011), hand-selected schedule.
struct Rave {
  static constexpr uint32_t kColumns = kAmafColumns;
  static constexpr Opening kOpening = Opening::kAll;
  struct Node {
    float log_visits;
  };
  explicit Rave(const SearchConfig& config)
      : c(static_cast<float>(config.uct_c)), k(static_cast<float>(config.rave_equivalence)) {}
  Node node(float visits) const { return {larger(fast_log(larger(visits, 1.0F)), 0.0F) * c * c}; }
  template <class F>
  F score(const Edge<F>& e, const Node& n) const {
    const F beta = square_root(k / (3.0F * e.visits + k));
    const F none =
        e.amaf_visits < 0.5F ? F{} + 1.0F : F{};  // nothing known: tried before the others
    return (1.0F - beta) * e.mean + beta * (e.amaf_mean + none) +
           square_root(n.log_visits / (e.visits + 1.0F));
  }
  float c;
  float k;
};

struct EpsilonGreedy {
  static constexpr uint32_t kColumns = 0;
  static constexpr Opening kOpening = Opening::kFirst;
  struct Node {};
  explicit EpsilonGreedy(const SearchConfig& config) : epsilon(config.epsilon) {}
  Node node(float) const { return {}; }
  template <class F>
  F score(const Edge<F>& e, const Node&) const {
    return e.mean;
  }
  bool explore(Random& rng) const { return rng.uniform() < epsilon; }
  double epsilon;
};

// Every legal action, in an order that no game chose.
struct ExpandAll {
  static constexpr bool kSamples = false;
  explicit ExpandAll(const SearchConfig&) {}
  template <class S>
  void actions(const S& state, ActionBufferOf<S>& out, Random& rng) const {
    state.legal(out);
    for (size_t i = out.size(); i > 1; --i) {
      std::swap(out[i - 1], out[rng.below(static_cast<uint32_t>(i))]);
    }
  }
  uint32_t limit(float) const { return std::numeric_limits<uint32_t>::max(); }
};

// Progressive widening: k * N^alpha edges are open at N visits (Coulom, "Computing Elo ratings of move patterns in the game
// of Go", 2007; Couetoux et al., "Continuous upper confidence trees", 2011). Games with sample_action() get their edges from
// it one by one; others open their legal actions in the order of the priors.
struct Widen {
  static constexpr bool kSamples = true;
  explicit Widen(const SearchConfig& config)
      : k(static_cast<float>(config.widening_k)),
        alpha(static_cast<float>(config.widening_alpha)) {}
  template <class S>
  void actions(const S& state, ActionBufferOf<S>& out, Random& rng) const {
    ExpandAll(SearchConfig{}).actions(state, out, rng);
  }
  uint32_t limit(float visits) const {
    return static_cast<uint32_t>(larger(1.0F, std::ceil(k * std::pow(visits, alpha))));
  }
  float k;
  float alpha;
};

struct MeanBackup {
  explicit MeanBackup(const SearchConfig&) {}
  template <class F>
  F sum(F sum, F /*visits*/, float value) const {
    return sum + static_cast<F>(value);
  }
};

// The mean over roughly the last 1 / kRate visits, for values that drift as the tree below grows.
struct RecentBackup {
  static constexpr float kRate = 0.01F;
  explicit RecentBackup(const SearchConfig&) {}
  template <class F>
  F sum(F sum, F visits, float value) const {
    const F before = visits > 1 ? sum / (visits - 1) : F{};
    return visits * (before + (static_cast<F>(value) - before) * std::max(1 / visits, F{kRate}));
  }
};

// What an edge can prove besides its visits.
struct FinalEdge {
  double visits;
  double value;
  double prior;
  bool proven;
  bool beaten = false;  // at best worth what another one is sure to be worth, and perhaps less
};

template <class A>
std::vector<FinalEdge> final_edges(std::span<const RootEdge<A>> edges) {
  double sure = -std::numeric_limits<double>::infinity();
  for (const RootEdge<A>& e : edges) {
    sure = std::max(sure, e.low);
  }
  std::vector<FinalEdge> finals;
  for (const RootEdge<A>& e : edges) {
    finals.push_back({.visits = static_cast<double>(e.visits),
                      .value = e.value,
                      .prior = e.prior,
                      .proven = e.proven,
                      .beaten = e.low < sure && e.high <= sure});
  }
  return finals;
}

// The most visited one; among equals the better value, then the likelier one. A proven win is taken; a proven loss is left where
// there is a choice, and so is what is beaten: edges that cannot be the best are not followed, whatever visits they had before.
struct MostVisits {
  explicit MostVisits(const SearchConfig&) {}
  size_t choose(std::span<const FinalEdge> edges, float win, float loss, Random&) const {
    const auto rank = [&](const FinalEdge& e) {
      return e.proven && e.value >= win ? 2 : e.beaten || (e.proven && e.value <= loss) ? 0 : 1;
    };
    size_t best = 0;
    for (size_t i = 1; i < edges.size(); ++i) {
      const FinalEdge& a = edges[i];
      const FinalEdge& b = edges[best];
      if (rank(a) != rank(b)     ? rank(a) > rank(b)
          : a.visits != b.visits ? a.visits > b.visits
          : a.value != b.value   ? a.value > b.value
                                 : a.prior > b.prior) {
        best = i;
      }
    }
    return best;
  }
};

// The best mean among visited ones that are not beaten.
struct BestValue {
  explicit BestValue(const SearchConfig&) {}
  size_t choose(std::span<const FinalEdge> edges, float, float, Random&) const {
    size_t best = 0;
    for (size_t i = 1; i < edges.size(); ++i) {
      const bool found = edges[best].visits > 0 && !edges[best].beaten;
      if (edges[i].visits > 0 && !edges[i].beaten &&
          (!found || edges[i].value > edges[best].value)) {
        best = i;
      }
    }
    return best;
  }
};

// In proportion to the visits (temperature 1): for self-play.
struct ProportionalVisits {
  explicit ProportionalVisits(const SearchConfig&) {}
  size_t choose(std::span<const FinalEdge> edges, float, float, Random& rng) const {
    double total = 0;
    for (const FinalEdge& e : edges) {
      total += e.visits;
    }
    double draw = rng.uniform() * total;
    size_t chosen = 0;
    for (size_t i = 0; i < edges.size(); ++i) {
      if (edges[i].visits > 0) {
        chosen = i;
        draw -= edges[i].visits;
        if (draw < 0) {
          break;
        }
      }
    }
    return chosen;
  }
};

// A visit under way counts as a visit that lost `virtual_loss`.
struct VirtualLoss {
  static constexpr bool kInFlightColumn = false;
};

// A visit under way counts as a visit of unknown value: it lowers the exploration term and leaves the mean alone (Liu et al.,
// "Watch the unobserved: a simple approach to parallelizing Monte Carlo tree search", ICLR 2020).
struct WuUct {
  static constexpr bool kInFlightColumn = true;
};

struct UctPolicies {
  using Select = Ucb1;
  using Expand = ExpandAll;
  using Backup = MeanBackup;
  using Final = MostVisits;
  using Collide = VirtualLoss;
  static constexpr bool kGumbel = false;
};

struct PuctPolicies : UctPolicies {
  using Select = Puct;
};

}  // namespace mstrain::mcts
