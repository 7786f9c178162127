// A game given as a table of C functions, as the search sees it.
#pragma once

#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "mcts/c_api/mstrain_mcts.h"
#include "mcts/evaluators.h"
#include "mcts/registry.h"

namespace mstrain::mcts {

// What a callback did wrong; the C functions turn these into codes.
class GameError : public Error {
 public:
  using Error::Error;
};
class EvaluatorError : public Error {
 public:
  using Error::Error;
};

// kN players at most (the table says how many there are; the others' results are 0). With kPays the game has rewards.
template <int kN, bool kPays>
class AbiState {
 public:
  static constexpr int kPlayers = kN;

  AbiState() = default;
  AbiState(const mst_mcts_game& game, const void* state) : game_(&game), bytes_(game.state_size) {
    std::memcpy(bytes_.data(), state, bytes_.size());
  }

  int player() const {
    const int player = game_->player(game_->context, data());
    if (player < MST_MCTS_TERMINAL || player >= static_cast<int>(game_->players)) {
      throw GameError(
          fmt::format("game: player gave {}; there are {} players", player, game_->players));
    }
    return player;
  }
  bool meets_chance() const { return game_->chance != nullptr; }
  uint32_t max_actions() const { return game_->max_actions; }
  void legal(ActionBuffer& out) const {
    const size_t before = out.size();
    out.resize(before + game_->max_actions);
    uint32_t count = 0;
    done("legal", game_->legal(game_->context, data(), out.data() + before, &count));
    room("legal", count);
    for (uint32_t i = 0; i < count; ++i) {
      known("legal", out[before + i]);
    }
    out.resize(before + count);
  }
  void apply(Action action) { done("apply", game_->apply(game_->context, bytes_.data(), action)); }
  Returns<kN> returns() const {
    Returns<kN> out{};
    done("returns", game_->returns(game_->context, data(), out.data()));
    return out;
  }
  void chance(ChanceBuffer& out) const {
    if (game_->chance == nullptr) {
      throw GameError("game: player() is MST_MCTS_CHANCE, but there is no chance callback");
    }
    std::vector<uint32_t> actions(game_->max_actions);
    std::vector<float> probabilities(game_->max_actions);
    uint32_t count = 0;
    done("chance",
         game_->chance(game_->context, data(), actions.data(), probabilities.data(), &count));
    room("chance", count);
    for (uint32_t i = 0; i < count; ++i) {
      known("chance", actions[i]);
      out.push({actions[i], probabilities[i]});
    }
  }
  Returns<kN> rewards() const requires kPays {
    Returns<kN> out{};
    done("rewards", game_->rewards(game_->context, data(), out.data()));
    return out;
  }

  const mst_mcts_game& game() const { return *game_; }
  const void* data() const { return bytes_.data(); }

 private:
  static void done(const char* what, int code) {
    if (code != 0) {
      throw GameError(fmt::format("game: {} returned {}", what, code));
    }
  }
  void room(const char* what, uint32_t count) const {
    if (count > game_->max_actions) {
      throw GameError(fmt::format("game: {} gave {} actions; max_actions is {}", what, count,
                                  game_->max_actions));
    }
  }
  void known(const char* what, uint32_t action) const {
    if (action >= game_->max_actions) {
      throw GameError(fmt::format("game: {} gave action {}; max_actions is {}", what, action,
                                  game_->max_actions));
    }
  }

  const mst_mcts_game* game_ = nullptr;
  std::vector<std::byte> bytes_;
};

// The search behind a handle, whatever its game and policies.
class AbiSearch {
 public:
  virtual ~AbiSearch() = default;
  virtual void set_root(const void* state) = 0;
  virtual void advance(uint32_t action) = 0;
  virtual void run(const Budget& budget, mst_mcts_evaluate evaluate, void* context,
                   bool with_priors) = 0;
  virtual uint32_t gather(uint32_t max_leaves, const void** states, float* observations) = 0;
  virtual uint32_t gathered() const = 0;
  virtual void scatter(const float* values, const float* priors) = 0;
  virtual mst_mcts_summary summary() const = 0;
  virtual std::vector<mst_mcts_edge> edges() const = 0;
  virtual std::vector<uint32_t> principal_variation() const = 0;
  mst_mcts_game game{};
};

using AbiPuzzle = AbiState<1, false>;
using AbiPaying = AbiState<1, true>;
using AbiTwo = AbiState<2, false>;
using AbiMany = AbiState<8, false>;

// Compiled for each kind of state in a file of its own. Throws Error for a policy that is not there.
template <class S>
std::unique_ptr<AbiSearch> make_abi_search(const mst_mcts_game& game, const std::string& policy,
                                           const SearchConfig& config);

}  // namespace mstrain::mcts
