#include "suites/reinforcement/alphazero/board_game.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain::alphazero {
namespace {

std::unique_ptr<mcts::play::Playable> find(const std::string& name, const std::string& key) {
  std::vector<std::string> names;
  std::string list;
  for (const mcts::play::GameEntry& entry : mcts::play::all_games()) {
    if (entry.name == name) {
      return entry.make();
    }
    names.emplace_back(entry.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  throw ConfigError(fmt::format("{}: no game \"{}\"{}; expected one of {}", key, name,
                                did_you_mean(name, names), list));
}

}  // namespace

BoardGame::BoardGame(const std::string& name, const std::string& key)
    : name_(name),
      playable_(find(name, key)),
      start_(playable_->start()),
      shape_(playable_->observation_shape()) {
  const AnyGame::Facts& facts = start_.facts();
  const char* const what = facts.information                       ? "hides cards"
                           : facts.chance                          ? "leaves moves to chance"
                           : facts.rewards                         ? "pays rewards on the way"
                           : facts.players > 2                     ? "has more than two players"
                           : facts.players == 2 && !facts.zero_sum ? "is not zero-sum"
                                                                   : nullptr;
  if (what != nullptr) {
    throw ConfigError(fmt::format(
        "{}: {} {}; AlphaZero learns games of one or two players in which everything is seen and "
        "the end decides",
        key, name, what));
  }
}

void BoardGame::encode(const AnyGame& state, std::span<float> out) const {
  const int player = state.player();
  const auto board = static_cast<size_t>(shape_[1]) * static_cast<size_t>(shape_[2]);
  const size_t own = static_cast<size_t>(shape_[0]) * board;
  playable_->observe(state, player, out.first(own));
  if (start_.players() > 1) {
    std::fill_n(out.begin() + static_cast<ptrdiff_t>(own), board, player == 1 ? 1.0F : 0.0F);
  }
}

float BoardGame::value_of(const Results& results, int player) const {
  const float low = start_.min_return();
  const float high = start_.max_return();
  return (2 * results[static_cast<size_t>(player)] - high - low) / (high - low);
}

Results BoardGame::results_of(float value, int player) const {
  const float low = start_.min_return();
  const float high = start_.max_return();
  const float own = (value * (high - low) + high + low) / 2;
  Results out{};
  out[static_cast<size_t>(player)] = own;
  if (start_.players() == 2) {
    out[static_cast<size_t>(1 - player)] = -own;
  }
  return out;
}

}  // namespace mstrain::alphazero
