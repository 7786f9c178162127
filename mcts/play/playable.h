// What programs that play and learn need of a game beside its rules; playable_of.h makes it from a game type, so little is compiled for each.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mcts/any_search.h"
#include "mcts/evaluators.h"
#include "mcts/search/tree_blocks.h"

namespace mstrain::mcts::play {

// A search that is compiled for the game: UCT, or a search of information sets where the game hides something.
class OwnSearch {
 public:
  using Result = AnySearch<AnyGame>::Result;
  virtual ~OwnSearch() = default;
  virtual void set_root(const AnyGame& root) = 0;
  virtual void advance(Action action) = 0;
  virtual Result run(const Budget& budget) = 0;
  // Its tree, null where it has none, and the actions of the tree's edges.
  virtual const TreeBlocks* tree() const = 0;
  virtual Action action(const Block& block, uint32_t edge) const = 0;
};

// A game by its states, all of which are any_game() of its type.
class Playable {
 public:
  virtual ~Playable() = default;
  virtual AnyGame start() const = 0;
  // Throws Error where the text is no position, or the game knows no such text.
  virtual AnyGame from_position(std::string_view text) const = 0;
  virtual bool has_positions() const = 0;
  virtual std::string position(
      const AnyGame& state) const = 0;  // empty where there is no such text
  virtual std::string draw(const AnyGame& state) const = 0;
  // What `player` may see of it.
  virtual std::string draw_for(const AnyGame& state, int player) const = 0;
  virtual std::unique_ptr<OwnSearch> search(const SearchConfig& config,
                                            const RandomRollout& rollout) const = 0;

  // What a network sees: planes, rows and columns of a board, or so many numbers, 1 and 1.
  virtual std::array<int, 3> observation_shape() const = 0;
  virtual void observe(const AnyGame& state, int player, std::span<float> out) const = 0;
  // As the game has them (mcts/game.h): symbols() is 0 where a board's cells are not all that there is, and nobody asks for them then.
  virtual uint32_t symbols() const = 0;
  virtual void cells(const AnyGame& state, std::span<uint8_t> out) const = 0;
  virtual AnyGame from_cells(std::span<const uint8_t> cells) const = 0;
  // As the game has them; 1 where it has none.
  virtual int symmetries() const = 0;
  virtual AnyGame symmetry(const AnyGame& state, int k) const = 0;
  virtual Action symmetry_action(int k, Action action) const = 0;
};

struct GameEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Playable> (*make)();
};

std::span<const GameEntry> all_games();

// Throws ConfigError that names the nearest game and lists them all.
const GameEntry& find_game(std::string_view name);

template <class S>
std::unique_ptr<Playable> make_playable();  // instantiated in games_*.cc

}  // namespace mstrain::mcts::play
