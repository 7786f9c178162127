// Games made for the engine's tests: small enough that every answer is known.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "mcts/evaluators.h"
#include "mcts/game.h"

namespace mstrain::mcts::testing {

// Take 1, 2 or 3 stones; who takes the last one wins. The mover loses where stones % 4 == 0.
template <int kN = 2>
struct NimGame {
  static constexpr int kPlayers = kN;
  static constexpr uint32_t kMaxActions = 4;
  static constexpr int kObservationSize = 2;
  int stones = 10;
  int mover = 0;

  int player() const { return stones == 0 ? kTerminal : mover; }
  void legal(ActionBuffer& out) const {
    for (int take = 1; take <= std::min(3, stones); ++take) {
      out.push(static_cast<Action>(take));
    }
  }
  void apply(Action take) {
    check(take >= 1 && static_cast<int>(take) <= std::min(3, stones), "nim: cannot take {} of {}",
          take, stones);
    stones -= static_cast<int>(take);
    mover = (mover + 1) % kN;
  }
  void undo(Action take) {
    stones += static_cast<int>(take);
    mover = (mover + kN - 1) % kN;
  }
  Returns<kN> returns() const {
    Returns<kN> result;
    result.fill(-1);
    result[(mover + kN - 1) % kN] = 1;
    return result;
  }
  uint64_t hash() const { return hash_mix(static_cast<uint64_t>(stones * kN + mover)); }
  void observe(int player, std::span<float> out) const {
    out[0] = static_cast<float>(stones);
    out[1] = static_cast<float>(player);
  }
};
using Nim = NimGame<2>;
using Nim3 = NimGame<3>;

struct NimUndo : Nim {
  static constexpr bool kPreferUndo = true;
};

// Bet 0 (safe: pays 0.4) or 1 (a die: pays 1 with probability 1/2, else 0). One player.
struct Gamble {
  static constexpr int kPlayers = 1;
  static constexpr uint32_t kMaxActions = 4;
  int stage = 0;  // 0 choice, 1 die, 2 over
  float paid = 0;
  double luck = 0.5;
  int player() const { return stage == 0 ? 0 : stage == 1 ? kChance : kTerminal; }
  void legal(ActionBuffer& out) const {
    out.push(0);
    out.push(1);
  }
  void chance(ChanceBuffer& out) const {
    out.push({2, static_cast<float>(luck)});
    out.push({3, static_cast<float>(1 - luck)});
  }
  void apply(Action a) {
    if (stage == 0) {
      stage = a == 0 ? 2 : 1;
      paid = a == 0 ? 0.4F : 0;
    } else {
      paid = a == 2 ? 1 : 0;
      stage = 2;
    }
  }
  Returns<1> returns() const { return {paid}; }
};

// A corridor: each step right costs 0.1 and the end pays 1; a step left pays 0.2 and ends. One player, rewards on the way.
struct Corridor {
  static constexpr int kPlayers = 1;
  static constexpr uint32_t kMaxActions = 2;
  static constexpr int kObservationSize = 1;
  int place = 0;
  int length = 4;
  float last = 0;
  bool over = false;
  int player() const { return over ? kTerminal : 0; }
  void legal(ActionBuffer& out) const {
    out.push(0);
    out.push(1);
  }
  void apply(Action a) {
    if (a == 0) {
      over = true;
      last = 0.2F;
      return;
    }
    ++place;
    over = place == length;
    last = over ? 1 : -0.1F;
  }
  Returns<1> rewards() const { return {last}; }
  Returns<1> returns() const { return {0}; }
  void observe(int, std::span<float> out) const { out[0] = static_cast<float>(place); }
};

// Name a real number; the nearer to 0.7, the better. One move, infinitely many actions.
struct Target {
  using Action = float;
  static constexpr int kPlayers = 1;
  float guess = -1;
  int player() const { return guess < 0 ? 0 : kTerminal; }
  void legal(Buffer<float>&) const {}
  float sample_action(Random& rng) const { return static_cast<float>(rng.uniform()); }
  void apply(float a) { guess = a; }
  Returns<1> returns() const { return {1 - 2 * std::abs(guess - 0.7F)}; }
};

// A uniform tree of moves with payoffs that a hash decides: many nodes, nothing to exploit.
template <int kActions, int kDepth>
struct HashTree {
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kMaxActions = kActions;
  static constexpr int kObservationSize = 1;
  uint64_t path = 1;
  int depth = 0;
  int player() const { return depth == kDepth ? kTerminal : depth & 1; }
  void legal(ActionBuffer& out) const {
    for (uint32_t a = 0; a < kActions; ++a) {
      out.push(a);
    }
  }
  void apply(Action a) {
    path = hash_mix(path * kActions + a);
    ++depth;
  }
  Returns<2> returns() const {
    const float v = static_cast<float>(path % 2001) / 1000.0F - 1;
    return {v, -v};
  }
  uint64_t hash() const { return path; }
  void observe(int, std::span<float> out) const { out[0] = static_cast<float>(path >> 40); }
};

// Each of these breaks one promise at ply `when`.
enum class Fault {
  kThrowInApply,
  kThrowInLegal,
  kThrowInReturns,
  kNoLegal,
  kBadPlayer,
  kBadAction,
  kFickle
};
struct Broken {
  static constexpr int kPlayers = 2;
  static constexpr uint32_t kMaxActions = 8;
  Fault fault = Fault::kThrowInApply;
  int when = 2;
  int plies = 0;
  int player() const {
    if (plies == when && fault == Fault::kBadPlayer) {
      return 7;
    }
    if (plies == when && fault == Fault::kFickle) {
      static thread_local int calls = 0;
      return ++calls & 1;
    }
    return plies >= 8 ? kTerminal : plies & 1;
  }
  void legal(ActionBuffer& out) const {
    if (plies == when && fault == Fault::kThrowInLegal) {
      throw std::runtime_error("legal broke");
    }
    if (plies == when && fault == Fault::kNoLegal) {
      return;
    }
    out.push(0);
    out.push(plies == when && fault == Fault::kBadAction ? 1000000 : 1);
  }
  void apply(Action a) {
    if (plies == when && fault == Fault::kThrowInApply) {
      throw std::runtime_error("apply broke");
    }
    check(a < 2, "broken: illegal action {}", a);
    ++plies;
  }
  Returns<2> returns() const {
    if (fault == Fault::kThrowInReturns) {
      throw std::runtime_error("returns broke");
    }
    return {0.5F, -0.5F};
  }
};

// Values and priors that depend on the state alone, whatever batch it comes in.
struct Pure {
  static constexpr bool kPriors = true;
  static constexpr bool kThreads = true;
  std::atomic<int64_t> asked{0};
  template <class S>
  void evaluate(EvalBatch<S>& batch) {
    asked += static_cast<int64_t>(batch.items.size());
    for (auto& item : batch.items) {
      const uint64_t h = item.state->hash();
      item.values = {static_cast<float>(h % 200) / 100.0F - 1,
                     1 - static_cast<float>(h % 200) / 100.0F};
      for (size_t a = 0; a < item.actions.size(); ++a) {
        item.priors[a] = static_cast<float>(1 + hash_mix(h + item.actions[a]) % 8);
      }
    }
  }
};

}  // namespace mstrain::mcts::testing
