// Games that were played, as training draws from them, and as checkpoints keep them.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/data/batch_part.h"
#include "core/train/outside.h"
#include "core/train/task.h"
#include "mcts/search/self_play.h"
#include "suites/reinforcement/alphazero/board_game.h"

namespace mstrain::alphazero {

// What is learned from a game: positions are the moves that lead to them.
struct LearnedGame {
  int64_t iteration = 0;
  float result = 0;  // of the first player, in [-1, 1]
  struct Move {
    Action action = 0;
    float value = 0;  // of the search, for the player to move, in [-1, 1]
    std::vector<std::pair<Action, float>> policy;  // shares, which sum up to 1; none: chance moved
    bool operator==(const Move&) const = default;
  };
  std::vector<Move> moves;
  // Of these the first ones, which chance made, and the others, in front of which there are positions to learn from.
  size_t opening() const;
  int64_t positions() const { return static_cast<int64_t>(moves.size() - opening()); }
  float result_of(int player) const { return player == 0 ? result : -result; }
  bool operator==(const LearnedGame&) const = default;
};

LearnedGame learned(const mcts::PlayedGame<AnyGame>& played, const BoardGame& game,
                    int64_t iteration);

// The newest games, `window` positions of them at least once there are so many. Its files lie in `folder`, one for each
// checkpoint.
class Replay final : public OutsideState {
 public:
  // `game` must outlive it.
  Replay(FileSystem& files, std::string folder, const BoardGame& game, int64_t window);

  void add(LearnedGame game);
  int64_t positions() const { return positions_; }
  const std::deque<LearnedGame>& games() const { return games_; }
  // How many iterations were played; the next one has this number.
  int64_t iterations() const { return iterations_; }
  void end_iteration() { ++iterations_; }
  // Mean number of iterations since a position was played.
  double age() const;

  // Where a position stands: number `index` of all, from the oldest on.
  struct Place {
    const LearnedGame& game;
    size_t move;
  };
  Place at(int64_t index) const;

  std::string name() const override { return "replay"; }
  void resume(const std::optional<std::string>& id) override;
  std::string prepare(int64_t step) override;
  void wait(const std::string&) override {}  // prepare() leaves it durable
  void confirm(const std::string& id, const std::vector<std::string>& needed) override;
  std::string describe() const override { return ""; }

 private:
  void write(const std::string& path) const;
  void read(const std::string& path);

  FileSystem& files_;
  std::string folder_;
  const BoardGame& game_;
  int64_t window_;
  std::deque<LearnedGame> games_;
  std::deque<int64_t> ends_;  // of each game, in positions since the run began
  int64_t dropped_ = 0;       // of these, which are no longer there
  int64_t positions_ = 0;
  int64_t iterations_ = 0;
};

struct DrawOptions {
  BatchPart part = 1;  // of a batch
  bool symmetries = true;
  float search_value = 0;  // share of the search's value in the target
  double discount = 1;     // of the result, for each move until it comes
};

// Batches {x[b, planes, rows, columns], policy[b, actions], value[b]}: sample `n` of the run is a function of `seed`, n, and
// what the replay then holds.
std::unique_ptr<BatchStream> draw_from(const Replay& replay, const BoardGame& game, uint64_t seed,
                                       const DrawOptions& options, int64_t first);

}  // namespace mstrain::alphazero
