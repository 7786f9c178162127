// The inner loop of every search: the edge of a block with the largest score, several edges at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

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
concept WeighsPacks = requires(const Select& s) {
  { s.weight(FloatPack{}) } -> std::same_as<FloatPack>;
};

template <class Select>
constexpr bool wants_inverse_root() {
  if constexpr (requires { Select::kInverseRoot; }) {
    return Select::kInverseRoot;
  } else {
    return false;
  }
}

// True where SearchConfig::first_play is asked.
template <class P>
constexpr bool values_first_play() {
  return !P::kGumbel && requires(const typename P::Select& s, const typename P::Select::Node& n) {
    s.unvisited(0.0F, 0.0F, 0.0F, n);
  };
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
  float floor;
  uint32_t column;
};

// Scores edges [0, open) of a block: F is float or FloatPack.
template <class P, Access kAccess, class F, bool kBounded>
[[gnu::always_inline]] inline Scan scan_edges(const Block& block, const BlockFormat& format,
                                              const typename P::Select& select,
                                              const typename P::Select::Node& node, uint32_t open,
                                              const Bound& bound) {
  using Columns = ColumnsOf<P>;
  constexpr bool kTotals = P::Select::kOpening == Opening::kBestPrior;
  constexpr bool kPacked = !std::is_same_v<F, float>;
  constexpr uint32_t kStep = kPacked ? kLanes : 1;
  using I = std::conditional_t<kPacked, IntPack, int32_t>;
  const uint32_t* visits = block.visits();
  const float* sums = block.sums();
  const uint16_t* priors = block.priors(format);

  const auto ints = [&](const void* column, uint32_t i) {
    using Word = int32_t __attribute__((may_alias));
    I pack{};
    const auto* from = static_cast<const Word*>(column) + i;
    // Loads of packs also see what lies behind the block, where another thread may be.
    if constexpr (kAccess != Access::kShared && !(kPacked && kThreadSanitizer)) {
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

  F visit_total{};
  F sum_total{};
  F prior_total{};
  // Scores of the edges from `i` on; not a number where there is none or it may not be followed.
  const auto score_at = [&](uint32_t i) {
    I mask{};
    if constexpr (kPacked) {
      mask = kLaneNumbers + static_cast<int32_t>(i) < static_cast<int32_t>(open);
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
    const F score = select.score(edge, node);
    if constexpr (kBounded) {
      const F upper = floats(ints(block.bound_column(format, bound.column), i) & mask);
      if constexpr (kPacked) {
        mask &= upper > bound.floor;
      } else {
        mask = upper > bound.floor ? -1 : 0;
      }
    }
    return floats(std::bit_cast<I>(score) | ~mask);
  };

  // The first of the largest scores among some packs: what lies behind `open` scores as not a number.
  Scan found;
  if constexpr (kPacked) {
    const auto look_at = [&]<uint32_t kPacks>(uint32_t begin) __attribute__((always_inline)) {
      static_assert(kPacks * kStep < 32);
      std::array<F, kPacks> scores;
      F top = F{} - std::numeric_limits<float>::infinity();
#pragma GCC unroll 3
      for (uint32_t pack = 0; pack < kPacks; ++pack) {
        scores[pack] = score_at(begin + pack * kStep);
        top = larger(scores[pack], top);
      }
      top = largest_lane(top);
      uint32_t equal = uint32_t{1} << 31U;  // where all are no numbers
#pragma GCC unroll 3
      for (uint32_t pack = 0; pack < kPacks; ++pack) {
        equal |= lane_bits(scores[pack] == top) << (pack * kStep);
      }
      return Scan{.best = static_cast<int32_t>(begin) + std::countr_zero(equal), .score = top[0]};
    };
    if (open <= kStep) {
      found = look_at.template operator()<1>(0);
    } else if (open <= 2 * kStep) {
      found = look_at.template operator()<2>(0);
    } else {
      found = look_at.template operator()<3>(0);
      for (uint32_t begin = 3 * kStep; begin < open; begin += 3 * kStep) {
        const Scan more = look_at.template operator()<3>(begin);
        if (more.score > found.score) {
          found = more;
        }
      }
    }
  } else {
    for (uint32_t i = 0; i < open; ++i) {
      if (const float score = score_at(i); score > found.score) {
        found.score = score;
        found.best = static_cast<int32_t>(i);
      }
    }
  }
  if constexpr (kTotals) {
    found.visits = lane_sum(visit_total);
    found.value = lane_sum(sum_total);
    found.prior = lane_sum(prior_total);
  }
  if (!(found.score > -std::numeric_limits<float>::infinity())) {
    found.best = -1;
  }
  return found;
}

// Mean over the edges [0, open) of a block, 0 where none was visited.
template <Access kAccess>
[[gnu::noinline]] float mean_of_edges(const Block& block, uint32_t open) {
  float sum = 0;
  float visits = 0;
  for (uint32_t i = 0; i < open; ++i) {
    sum += read<kAccess>(block.sums() + i);
    visits += static_cast<float>(read<kAccess>(block.visits() + i));
  }
  return visits > 0 ? sum / visits : 0.0F;
}

// What the policy scores at once.
template <class P>
using PackOf = std::conditional_t<ScoresPacks<typename P::Select>, FloatPack, float>;

// The same; not inlined, and so compiled once for all games. By value, or callers would keep in memory what they pass.
template <class P, Access kAccess, bool kBounded>
[[gnu::noinline]] Scan scan_edges_apart(Block block, const BlockFormat& format,
                                        const typename P::Select& select,
                                        typename P::Select::Node node, uint32_t open, Bound bound) {
  return scan_edges<P, kAccess, PackOf<P>, kBounded>(block, format, select, node, open, bound);
}

}  // namespace mstrain::mcts
