// The inner loop of every search: the edge of a block with the largest score, several edges at a time.
#pragma once

#include <cstdint>
#include <limits>

#include "mcts/search/access.h"
#include "mcts/search/block.h"
#include "mcts/search/pack.h"
#include "mcts/search/policies.h"

namespace mstrain::mcts {

// Where the columns that policies ask for stand among a block's policy columns.
template <class P>
struct ColumnsOf {
  static constexpr uint32_t kWanted = P::Select::kColumns;
  static constexpr bool kPrior = (kWanted & kPriorColumn) != 0 || P::kGumbel;
  static constexpr bool kAmaf = (kWanted & kAmafColumns) != 0;
  static constexpr bool kSquare = (kWanted & kSquareColumn) != 0;
  static constexpr bool kInFlight = P::Collide::kInFlightColumn;
  static constexpr uint32_t kAmafVisits = 0;
  static constexpr uint32_t kAmafSum = 1;
  static constexpr uint32_t kSquareSum = kAmaf ? 2 : 0;
  static constexpr uint32_t kInFlightCount = kSquareSum + (kSquare ? 1 : 0);
  static constexpr uint32_t kCount = kInFlightCount + (kInFlight ? 1 : 0);
};

template <class Select>
concept ScoresPacks = requires(const Select& s, const Edge<FloatPack>& e,
                               const typename Select::Node& n) {
  { s.score(e, n) } -> std::same_as<FloatPack>;
};

template <class Select>
constexpr bool wants_inverse_root() {
  if constexpr (requires { Select::kInverseRoot; }) {
    return Select::kInverseRoot;
  } else {
    return false;
  }
}

struct Scan {
  int32_t best = -1;  // no edge may be followed
  float score = -std::numeric_limits<float>::infinity();
  float visits = 0;  // sums over the edges scanned; for Opening::kBestPrior alone
  float value = 0;
  float prior = 0;
};

// Which edges are still worth following: those whose upper bound (in bound column `column`) lies above `floor`.
struct Bound {
  float floor = -std::numeric_limits<float>::infinity();  // infinite: all
  uint32_t column = 1;
};

// Scores edges [0, open) of a block.
template <class P, Access kAccess, class F>
[[gnu::always_inline]] inline Scan scan_edges(const Block& block, const BlockFormat& format,
                                              const typename P::Select& select,
                                              const typename P::Select::Node& node, uint32_t open,
                                              const Bound& bound) {
  using Columns = ColumnsOf<P>;
  constexpr bool kTotals = P::Select::kOpening == Opening::kBestPrior;
  constexpr bool kPacked = !std::is_same_v<F, float>;
  constexpr uint32_t kStep = kPacked ? kLanes : 1;
  using I = std::conditional_t<kPacked, IntPack, int32_t>;
  const bool bounded = bound.floor > -std::numeric_limits<float>::infinity();
  const uint32_t* visits = block.visits();
  const float* sums = block.sums();
  const uint16_t* priors = block.priors(format);

  const auto ints = [&](const void* column, uint32_t i) {
    using Word = int32_t __attribute__((may_alias));
    I pack{};
    const auto* from = static_cast<const Word*>(column) + i;
    if constexpr (kAccess != Access::kShared) {
      load(from, pack);
    } else if constexpr (kPacked && kLoadsShared) {
      load_shared(from, pack);
    } else if constexpr (kPacked) {
      for (uint32_t lane = 0; lane < kStep && i + lane < open; ++lane) {
        pack[lane] = __atomic_load_n(from + lane, __ATOMIC_RELAXED);
      }
    } else {
      pack = __atomic_load_n(from, __ATOMIC_RELAXED);
    }
    return pack;
  };
  const auto floats = [](I bits) { return std::bit_cast<F>(bits); };
  const auto to_floats = [](I numbers) {
    if constexpr (kPacked) {
      return __builtin_convertvector(numbers, FloatPack);
    } else {
      return static_cast<float>(numbers);
    }
  };

  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const F lowest = F{} + kLowest;
  F best_score = lowest;
  F best_index{};  // as floats: exact, and there are instructions for their minimum
  F visit_total{};
  F sum_total{};
  F prior_total{};
  I index{};
  if constexpr (kPacked) {
    index = lane_numbers();
  }
  for (uint32_t i = 0; i < open; i += kStep, index += static_cast<int32_t>(kStep)) {
    I mask{};
    if constexpr (kPacked) {
      mask = index < static_cast<int32_t>(open);
    } else {
      mask = -1;
    }
    const F n = to_floats(ints(visits, i) & mask);
    const F sum = floats(ints(sums, i) & mask);
    Edge<F> edge{};
    edge.visits = n;
    if constexpr (Columns::kInFlight) {
      edge.visits += to_floats(ints(block.policy_column(Columns::kInFlightCount), i) & mask);
    }
    edge.visits = larger(edge.visits, F{} + (P::Select::kOpening == Opening::kFirst ? 1.0F : 0.0F));
    edge.inverse_root = 1.0F / square_root(edge.visits);
    if constexpr (wants_inverse_root<typename P::Select>() && !Columns::kInFlight) {
      edge.mean = sum * edge.inverse_root * edge.inverse_root;
    } else {
      edge.mean = sum / larger(n, F{} + 1.0F);
    }
    if constexpr (kTotals) {
      visit_total += n;
      sum_total += sum;
    }
    if constexpr (Columns::kPrior) {
      if constexpr (kPacked) {
        for (uint32_t lane = 0; lane < kStep && i + lane < open; ++lane) {
          edge.prior[lane] = unpack_prior(priors[i + lane]);
        }
      } else {
        edge.prior = unpack_prior(priors[i]);
      }
      prior_total += edge.prior;
    }
    if constexpr (Columns::kAmaf) {
      edge.amaf_visits = floats(ints(block.policy_column(Columns::kAmafVisits), i) & mask);
      edge.amaf_mean = floats(ints(block.policy_column(Columns::kAmafSum), i) & mask) /
                       larger(edge.amaf_visits, F{} + 1.0F);
    }
    if constexpr (Columns::kSquare) {
      edge.square_mean =
          floats(ints(block.policy_column(Columns::kSquareSum), i) & mask) / larger(n, F{} + 1.0F);
    }
    F score = select.score(edge, node);
    if (bounded) {
      const F upper = floats(ints(block.bound_column(format, bound.column), i) & mask);
      if constexpr (kPacked) {
        mask &= upper > bound.floor;
      } else {
        mask = upper > bound.floor ? -1 : 0;
      }
    }
    if constexpr (kPacked) {
      score = mask != 0 ? score : lowest;
      const IntPack better = score > best_score;
      best_index = better ? __builtin_convertvector(index, FloatPack) : best_index;
      best_score = larger(score, best_score);
    } else if (mask != 0 && score > best_score) {
      best_score = score;
      best_index = static_cast<float>(i);
    }
  }

  Scan found;
  if constexpr (kPacked) {
    const FloatPack top = largest_lane(best_score);
    const FloatPack none = FloatPack{} + static_cast<float>(1 << 24);
    found.score = top[0];
    found.best = static_cast<int32_t>(smallest_lane(best_score == top ? best_index : none)[0]);
    if constexpr (kTotals) {
      found.visits = lane_sum(visit_total);
      found.value = lane_sum(sum_total);
      found.prior = lane_sum(prior_total);
    }
  } else {
    found = {static_cast<int32_t>(best_index), best_score, visit_total, sum_total, prior_total};
  }
  if (!(found.score > kLowest)) {
    found.best = -1;
  }
  return found;
}

// The same, in packs where the policy can.
template <class P, Access kAccess>
Scan scan_block(const Block& block, const BlockFormat& format, const typename P::Select& select,
                const typename P::Select::Node& node, uint32_t open, const Bound& bound) {
  if constexpr (ScoresPacks<typename P::Select>) {
    return scan_edges<P, kAccess, FloatPack>(block, format, select, node, open, bound);
  } else {
    return scan_edges<P, kAccess, float>(block, format, select, node, open, bound);
  }
}

}  // namespace mstrain::mcts
