// A Playable for one type of game.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "mcts/play/playable.h"
#include "mcts/search/keyed_search.h"
#include "mcts/search/search.h"

namespace mstrain::mcts::play {

// No result tells the number of players otherwise.
template <int kPlayers>
OwnSearch::Result widen(const SearchResult<Action, kPlayers>& r) {
  return {r.action,     r.value, r.edges, r.principal_variation, r.counters, r.nodes,
          r.tree_bytes, r.stop,  r.proven};
}

template <GameState S>
class UctOf final : public OwnSearch {
 public:
  UctOf(const SearchConfig& config, const RandomRollout& rollout)
      : search_(config), rollout_(rollout) {}
  void set_root(const AnyGame& root) override { search_.set_root(inside<S>(root)); }
  void advance(Action action) override { search_.advance(action); }
  Result run(const Budget& budget) override { return widen(search_.run(rollout_, budget)); }
  const TreeBlocks* tree() const override { return &search_.tree(); }
  Action action(const Block& block, uint32_t edge) const override {
    return search_.tree().action(block, edge);
  }

 private:
  Search<S> search_;
  RandomRollout rollout_;
};

// Searches with what the player may know, anew for each move.
template <GameState S>
class InformationOf final : public OwnSearch {
 public:
  InformationOf(const SearchConfig& config, const RandomRollout& rollout)
      : search_(config), rollout_(rollout) {}
  void set_root(const AnyGame& root) override { root_ = inside<S>(root); }
  void advance(Action action) override { root_.apply(action); }
  Result run(const Budget& budget) override { return widen(search_.run(root_, rollout_, budget)); }
  const TreeBlocks* tree() const override { return nullptr; }
  Action action(const Block&, uint32_t) const override { fail("search: there is no tree"); }

 private:
  InformationSearch<S> search_;
  RandomRollout rollout_;
  S root_;
};

template <GameState S>
class PlayableOf final : public Playable {
 public:
  AnyGame start() const override { return any_game(S()); }
  bool has_positions() const override { return HasPosition<S>; }
  AnyGame from_position(std::string_view text) const override {
    if constexpr (HasPosition<S>) {
      return any_game(S::from_position(text));
    } else {
      fail("position: {} has none but the moves from the start; found \"{}\"", S::kName, text);
    }
  }
  std::string position(const AnyGame& state) const override {
    if constexpr (HasPosition<S>) {
      return inside<S>(state).position();
    } else {
      return {};
    }
  }
  std::string draw(const AnyGame& state) const override { return inside<S>(state).draw(); }
  std::string draw_for(const AnyGame& state, [[maybe_unused]] int player) const override {
    if constexpr (requires(const S& s) { s.draw_for(player); }) {
      return inside<S>(state).draw_for(player);
    } else {
      return draw(state);
    }
  }
  std::unique_ptr<OwnSearch> search(const SearchConfig& config,
                                    const RandomRollout& rollout) const override {
    using Own = std::conditional_t<HasInformation<S>, InformationOf<S>, UctOf<S>>;
    return std::make_unique<Own>(config, rollout);
  }
  std::array<int, 3> observation_shape() const override {
    if constexpr (requires { S::kObservationShape; }) {
      constexpr std::array<int, 3> kShape = S::kObservationShape;
      static_assert(kShape[0] * kShape[1] * kShape[2] == S::kObservationSize);
      return kShape;
    } else {
      return {S::kObservationSize, 1, 1};
    }
  }
  void observe(const AnyGame& state, int player, std::span<float> out) const override {
    inside<S>(state).observe(player, out);
  }
  uint32_t symbols() const override {
    if constexpr (HasCells<S>) {
      return S::kSymbols;
    } else {
      return 0;
    }
  }
  void cells(const AnyGame& state, [[maybe_unused]] std::span<uint8_t> out) const override {
    if constexpr (HasCells<S>) {
      inside<S>(state).cells(out);
    }
  }
  AnyGame from_cells([[maybe_unused]] std::span<const uint8_t> cells) const override {
    if constexpr (HasCells<S>) {
      return any_game(S::from_cells(cells));
    } else {
      fail("game: {} has no cells", S::kName);
    }
  }
  int symmetries() const override {
    if constexpr (HasSymmetry<S>) {
      return S::kSymmetries;
    } else {
      return 1;
    }
  }
  AnyGame symmetry(const AnyGame& state, [[maybe_unused]] int k) const override {
    if constexpr (HasSymmetry<S>) {
      return any_game(inside<S>(state).symmetry(k));
    } else {
      return state;
    }
  }
  Action symmetry_action([[maybe_unused]] int k, Action action) const override {
    if constexpr (HasSymmetry<S>) {
      return S::symmetry_action(k, action);
    } else {
      return action;
    }
  }
};

template <class S>
std::unique_ptr<Playable> make_playable() {
  return std::make_unique<PlayableOf<S>>();
}

}  // namespace mstrain::mcts::play
