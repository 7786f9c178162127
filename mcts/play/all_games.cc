#include <array>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "mcts/games/connect_four.h"
#include "mcts/games/game_2048.h"
#include "mcts/games/go.h"
#include "mcts/games/gomoku.h"
#include "mcts/games/hex.h"
#include "mcts/games/kuhn_poker.h"
#include "mcts/games/leduc_poker.h"
#include "mcts/games/othello.h"
#include "mcts/games/peg_solitaire.h"
#include "mcts/games/racetrack.h"
#include "mcts/games/tic_tac_toe.h"
#include "mcts/play/playable.h"

namespace mstrain::mcts::play {
namespace {

template <class S>
GameEntry entry(std::string_view summary) {
  return {S::kName, summary, &make_playable<S>};
}

const std::vector<GameEntry>& entries() {
  static const std::vector<GameEntry> kEntries = {
      entry<TicTacToe>("cells 1 to 9, row by row from the top left: 519"),
      entry<ConnectFour>("columns 1 to 7: 4453"),
      entry<Othello<8>>("cells, or pass: f5d6c3"),
      entry<Othello<6>>("on 6x6"),
      entry<Othello<4>>("on 4x4"),
      entry<Gomoku<15>>("five in a row on 15x15, cells: h8g9"),
      entry<Gomoku<7>>("on 7x7"),
      entry<Go<9>>("9x9, area scoring, superko, komi 7.5, cells or pass: e5c3"),
      entry<Go<7>>("on 7x7"),
      entry<Go<5>>("on 5x5"),
      entry<Hex<11>>("11x11; x joins top and bottom, o left and right: f6e7"),
      entry<Hex<7>>("on 7x7"),
      entry<Hex<5>>("on 5x5"),
      entry<Game2048>("left, right, up, down; tiles as b3=2"),
      entry<KuhnPoker>("cards, then pass or bet: K Q pass bet"),
      entry<LeducPoker>("cards, then fold, call, raise: Ks Qh raise call Kh"),
      entry<PegSolitaire>("jumps: d2-d4"),
      entry<Racetrack>(
          "changes of speed by compass (- for none), then grips or slips: n grips ne grips"),
  };
  return kEntries;
}

}  // namespace

std::span<const GameEntry> all_games() { return entries(); }

const GameEntry& find_game(std::string_view name) {
  std::vector<std::string> names;
  std::string list;
  for (const GameEntry& each : entries()) {
    if (each.name == name) {
      return each;
    }
    names.emplace_back(each.name);
    list += (list.empty() ? "" : " ") + std::string(each.name);
  }
  if (name.empty()) {
    throw ConfigError("--game: expected a name; one of: " + list);
  }
  throw ConfigError(fmt::format("--game: no game \"{}\"{}; expected one of: {}", name,
                                did_you_mean(name, names), list));
}

}  // namespace mstrain::mcts::play
