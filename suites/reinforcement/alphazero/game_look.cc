#include "suites/reinforcement/alphazero/game_look.h"

#include <cmath>
#include <map>

#include "suites/reinforcement/env/board_picture.h"

namespace mstrain::alphazero {
namespace {

using reinforcement::BoardPicture;
using reinforcement::Canvas;
using reinforcement::Moment;

std::vector<float> seen_in(const BoardGame& rules, const AnyGame& state) {
  const auto [planes, rows, columns] = rules.playable().observation_shape();
  std::vector<float> seen(static_cast<size_t>(planes * rows * columns));
  rules.playable().observe(state, 0, seen);
  return seen;
}

// Where nothing stood before the move; -1: nowhere, as when it passes.
int64_t cell_of(const BoardPicture& board, const BoardGame& rules, const AnyGame& state,
                std::span<const float> seen, Action action) {
  AnyGame next = state;
  next.apply(action);
  const std::vector<float> after = seen_in(rules, next);
  for (int64_t cell = 0; cell < board.cells(); ++cell) {
    if (!board.is_taken(seen, cell) && board.is_taken(after, cell)) {
      return cell;
    }
  }
  return -1;
}

Image picture_of(const BoardPicture& board, const BoardGame& rules, const AnyGame& state,
                 const LearnedGame::Move& move) {
  const std::vector<float> seen = seen_in(rules, state);
  Canvas canvas = board.draw(seen);
  std::map<int64_t, double> shares;  // by cell
  for (const auto& [action, share] : move.policy) {
    shares[cell_of(board, rules, state, seen, action)] += static_cast<double>(share);
  }
  for (const auto& [cell, share] : shares) {
    if (cell >= 0) {
      canvas.disc(board.centre(cell), std::sqrt(share) * 0.45 * BoardPicture::kCell,
                  reinforcement::kGreen);
    }
  }
  if (const int64_t cell = cell_of(board, rules, state, seen, move.action); cell >= 0) {
    canvas.disc(board.centre(cell), 3, reinforcement::kRed);
  }
  return canvas.take();
}

}  // namespace

std::vector<Moment> pictures_of(const LearnedGame& game, const BoardGame& rules) {
  std::vector<Moment> out;
  if (rules.rows() * rules.columns() == 1) {
    return out;
  }
  const BoardPicture board(rules.playable(), rules.name());
  AnyGame state = rules.start();
  for (const LearnedGame::Move& move : game.moves) {
    if (!move.policy.empty()) {
      out.push_back(
          {static_cast<int64_t>(&move - game.moves.data()), picture_of(board, rules, state, move)});
    }
    state.apply(move.action);
  }
  return out;
}

OrderedJson look_at(const Replay& replay, const BoardGame& rules) {
  OrderedJson row;
  std::vector<reinforcement::Forecasted> states;
  bool is_first = true;
  for (const LearnedGame& game : replay.games()) {
    if (game.iteration != replay.iterations() - 1) {
      continue;
    }
    if (is_first) {
      if (const std::vector<Moment> moments = pictures_of(game, rules); !moments.empty()) {
        add_strip(row, moments);
        row["note"] =
            "A game of self-play. The areas of green discs are the shares of the policy that a "
            "search found; a red dot is on the move that was played.";
      }
      is_first = false;
    }
    AnyGame state = rules.start();
    for (const LearnedGame::Move& move : game.moves) {
      if (!move.policy.empty()) {
        states.push_back({move.value, game.result_of(state.player())});
      }
      state.apply(move.action);
    }
  }
  row["values"] = compared(std::move(states));
  return row;
}

}  // namespace mstrain::alphazero
