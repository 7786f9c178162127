#include "suites/reinforcement/algorithms/td_afterstate.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace mstrain::reinforcement {
namespace {

using mcts::Action;
using mcts::AnyGame;

constexpr int64_t kLargestTable = int64_t{1} << 28;  // entries

std::unique_ptr<mcts::play::Playable> playable(const std::string& name) {
  const auto& known = mcts::play::all_games();
  const auto entry = std::ranges::find(known, name, &mcts::play::GameEntry::name);
  std::unique_ptr<mcts::play::Playable> game = entry == known.end() ? nullptr : entry->make();
  if (game == nullptr || game->start().players() != 1 || game->symbols() == 0) {
    std::string fitting;
    for (const mcts::play::GameEntry& each : known) {
      if (const auto one = each.make(); one->start().players() == 1 && one->symbols() > 0) {
        fitting += (fitting.empty() ? "" : ", ") + std::string(each.name);
      }
    }
    throw ConfigError(
        fmt::format("environment.name: {} is no game of one player whose board says all; "
                    "td_afterstate plays {}",
                    name, fitting));
  }
  return game;
}

// Where each cell is in each symmetry, by boards with one symbol on them.
std::vector<std::vector<uint8_t>> moved_cells(const mcts::play::Playable& game, size_t cells) {
  std::vector<std::vector<uint8_t>> out(static_cast<size_t>(game.symmetries()),
                                        std::vector<uint8_t>(cells));
  for (size_t cell = 0; cell < cells; ++cell) {
    std::vector<uint8_t> board(cells, 0);
    board[cell] = 1;
    const AnyGame state = game.from_cells(board);
    for (size_t k = 0; k < out.size(); ++k) {
      game.cells(game.symmetry(state, static_cast<int>(k)), board);
      out[k][cell] = static_cast<uint8_t>(std::ranges::find(board, 1) - board.begin());
    }
  }
  return out;
}

size_t cells_of(const mcts::play::Playable& game) {
  const auto [planes, rows, columns] = game.observation_shape();
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

const std::vector<NTupleNetwork::Tuple>& checked(const std::vector<NTupleNetwork::Tuple>& tuples,
                                                 size_t cells, int64_t symbols) {
  if (tuples.empty()) {
    throw ConfigError("algorithm.tuples: expected at least one list of cells");
  }
  for (size_t i = 0; i < tuples.size(); ++i) {
    const std::string where = fmt::format("algorithm.tuples[{}]", i);
    int64_t entries = 1;
    for (const int64_t cell : tuples[i]) {
      if (cell < 0 || cell >= static_cast<int64_t>(cells)) {
        throw ConfigError(fmt::format("{}: expected cells from 0 to {}, row by row, found {}",
                                      where, cells - 1, cell));
      }
      if (std::ranges::count(tuples[i], cell) > 1) {
        throw ConfigError(fmt::format("{}: has cell {} twice", where, cell));
      }
      entries *= symbols;
      if (entries > kLargestTable) {
        throw ConfigError(
            fmt::format("{}: {} cells with {} symbols each are a table of more than "
                        "{} entries",
                        where, tuples[i].size(), symbols, kLargestTable));
      }
    }
    if (tuples[i].empty()) {
      throw ConfigError(where + ": has no cells");
    }
  }
  return tuples;
}

}  // namespace

void TdAfterstate::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"td_afterstate"}));
  v("discount", discount, "of rewards, a move", rule::above(0).at_most(1));
  v("tuples", tuples,
    "lists of cells, numbered row by row; each has a table with an entry for all that can stand on "
    "them");
  v("step_size", step_size,
    "share of an error that is corrected at once where an entry's errors agree", rule::positive());
  v("train_every", train_every, "moves of each environment in an iteration", rule::at_least(1));
  v("simulations", simulations,
    "of a search of the rules by these values, which evaluations and mstrain play choose by; 0: "
    "none",
    rule::at_least(0).at_most(1 << 20));
}

mcts::SearchConfig TdAfterstate::search_config(uint64_t seed, float value) const {
  constexpr double kExploration = 0.3;  // in units of what the position is worth
  return {.seed = seed,
          .puct_c = kExploration * std::fabs(value),
          .first_play = mcts::FirstPlay::kParent,
          .discount = discount,
          .memory_limit = int64_t{1} << 26};
}

AfterstateValues::AfterstateValues(const TdAfterstate& config, const std::string& game)
    : game_(playable(game)),
      cells_(cells_of(*game_)),
      network_(checked(config.tuples, cells_, game_->symbols()), game_->symbols(),
               moved_cells(*game_, cells_)),
      discount_(static_cast<float>(config.discount)) {
  if (config.simulations == 1) {
    throw ConfigError("algorithm.simulations: 1 looks at no move: expected 0, or at least 2");
  }
}

AnyGame AfterstateValues::seen(std::span<const float> observation) const {
  thread_local std::vector<float> symbol;
  thread_local std::vector<uint8_t> board;
  symbol.assign(cells_, 0);
  board.resize(cells_);
  const size_t planes = observation.size() / cells_;
  for (size_t plane = 1; plane < planes; ++plane) {
    for (size_t cell = 0; cell < cells_; ++cell) {
      symbol[cell] += static_cast<float>(plane) * observation[plane * cells_ + cell];
    }
  }
  std::ranges::transform(symbol, board.begin(), [](float s) { return static_cast<uint8_t>(s); });
  return game_->from_cells(board);
}

struct AfterstateValues::Look {
  mcts::ActionBuffer actions;
  std::vector<float> totals;      // [actions]: rewards, and discounted values of afterstates
  std::vector<uint8_t> boards;    // [actions, cells]
  std::vector<uint32_t> entries;  // [actions, lookups]
  AnyGame next;
};

const AfterstateValues::Look& AfterstateValues::look(const AnyGame& state) const {
  thread_local Look it;
  it.actions.clear();
  state.legal(it.actions);
  const size_t lookups = network_.lookups();
  it.totals.resize(it.actions.size());
  it.boards.resize(it.actions.size() * cells_);
  it.entries.resize(it.actions.size() * lookups);
  for (size_t i = 0; i < it.actions.size(); ++i) {
    it.next = state;
    it.next.apply(it.actions[i]);
    it.totals[i] = it.next.rewards()[0];
    const auto cells = std::span(it.boards).subspan(i * cells_, cells_);
    game_->cells(it.next, cells);
    network_.entries(cells, std::span(it.entries).subspan(i * lookups, lookups));
  }
  // All entries are known before the first is waited for.
  for (size_t i = 0; i < it.actions.size(); ++i) {
    it.totals[i] += discount_ * value(std::span(it.entries).subspan(i * lookups, lookups));
  }
  return it;
}

AfterstateValues::Choice AfterstateValues::best(const AnyGame& state,
                                                std::span<uint8_t> after) const {
  if (state.player() != 0) {
    return {};
  }
  const Look& seen = look(state);
  const auto most = std::ranges::max_element(seen.totals);
  const auto chosen = static_cast<size_t>(most - seen.totals.begin());
  if (!after.empty()) {
    std::ranges::copy(std::span(seen.boards).subspan(chosen * cells_, cells_), after.begin());
  }
  return {static_cast<int64_t>(seen.actions[chosen]), *most};
}

void AfterstateValues::evaluate(mcts::EvalBatch<AnyGame>& batch) const {
  constexpr float kTemperature = 0.04F;  // of the best choice's worth
  constexpr float kLeast = 1e-6F;
  for (mcts::EvalItem<AnyGame>& item : batch.items) {
    const Look& seen = look(*item.state);
    const float best = *std::ranges::max_element(seen.totals);
    item.values = {};
    item.values[0] = best;
    for (size_t i = 0; i < item.priors.size(); ++i) {
      const auto at = std::find(seen.actions.begin(), seen.actions.end(), item.actions[i]);
      const float total = seen.totals[static_cast<size_t>(at - seen.actions.begin())];
      item.priors[i] = std::exp((total - best) / std::max(kTemperature * std::fabs(best), kLeast));
    }
  }
}

}  // namespace mstrain::reinforcement
