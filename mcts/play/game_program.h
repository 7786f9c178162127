// mcts_play for one type of game.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mcts/chance.h"
#include "mcts/games/text.h"
#include "mcts/play/engine.h"
#include "mcts/play/program.h"
#include "mcts/play/terminal.h"

namespace mstrain::mcts::play {

// Moves from the start, or a whole position. Errors speak of whichever the text looks like.
template <GameState S>
S read_position(const std::string& text) {
  try {
    if (!HasPosition<S> || text.find('/') == std::string::npos) {
      try {
        return play_moves(S(), text);
      } catch (const Error&) {
        if constexpr (HasPosition<S>) {
          try {
            return S::from_position(text);
          } catch (const Error&) {
          }
        }
        throw;
      }
    }
    return S::from_position(text);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

template <GameState S>
class GameProgram : public Program {
 public:
  using A = ActionOf<S>;

  Analysis analyze(const Options& options, Picture* picture) override {
    const S root = decision_from(options);
    Engine<S> engine(options, options.search.seed, options.simulations);
    engine.set_root(root);
    Analysis out = engine.think();
    if (picture != nullptr) {
      *picture = engine.picture(out, options.tree_nodes);
    }
    return out;
  }

  SelfPlay self_play(const Options& options) override;
  Bench bench(const Options& options) override;
  void play(const Options& options) override;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // options.position; where chance is to move there, its outcomes are drawn until a player is.
  static S decision_from(const Options& options) {
    S state = read_position<S>(options.position);
    Random rng(options.search.seed, 1);
    ChanceBufferOf<S> outcomes;
    while (state.player() == kChance) {
      state.apply(draw_chance(state, outcomes, rng));
    }
    if (state.player() == kTerminal) {
      throw ConfigError(fmt::format(
          "position: the game is over after \"{}\"; expected one where a player is to move",
          options.position));
    }
    return state;
  }

  // Games in common batches (parallelism: batched).
  static SelfPlay self_play_batched(const Options& options, const S& root);
  static void count(SelfPlay& out, const ReturnsOf<S>& total, int64_t plies);

  static void add(ReturnsOf<S>& total, const ReturnsOf<S>& values) {
    for (size_t p = 0; p < total.size(); ++p) {
      total[p] += values[p];
    }
  }
  static std::string result_text(const ReturnsOf<S>& total) {
    if constexpr (S::kPlayers == 1) {
      return fmt::format("the game is over; result {:.4f}\n", total[0]);
    } else {
      const auto best = std::max_element(total.begin(), total.end());
      if (std::count(total.begin(), total.end(), *best) > 1) {
        return "the game is over: a draw\n";
      }
      return fmt::format("the game is over: player {} wins ({:+g})\n", best - total.begin() + 1,
                         *best);
    }
  }

  // One action of a person: nothing where the game is left. "hint", "moves", "undo" and "help" are answered on the way.
  enum class Said { kAction, kUndo, kQuit };
  static Said ask_person(const S& state, const Options& options, A& action);
};

template <GameState S>
SelfPlay GameProgram<S>::self_play(const Options& options) {
  const auto start = Clock::now();
  SelfPlay out;
  out.game = S::kName;
  out.games = options.games;
  out.wins.assign(S::kPlayers, 0);
  out.mean_return.assign(S::kPlayers, 0);
  ChanceBufferOf<S> outcomes;
  const S root = read_position<S>(options.position);
  if (root.player() == kTerminal) {
    throw ConfigError("position: the game is over; nothing is left to play");
  }
  if (options.search.parallelism == Parallelism::kBatched) {
    out = self_play_batched(options, root);
    out.seconds = seconds_since(start);
    return out;
  }
  for (int64_t game = 0; game < options.games; ++game) {
    Random rng(options.search.seed, 2, static_cast<uint64_t>(game));
    std::vector<std::unique_ptr<Engine<S>>> engines;
    for (int player = 0; player < S::kPlayers; ++player) {
      const bool other = player == 1 && options.opponent_simulations > 0;
      engines.push_back(std::make_unique<Engine<S>>(
          options, rng.next_u64(), other ? options.opponent_simulations : options.simulations));
      engines.back()->set_root(root);
    }
    S state = root;
    ReturnsOf<S> total{};
    int64_t plies = 0;
    while (state.player() != kTerminal) {
      A action{};
      if (state.player() >= 0) {
        Engine<S>& engine = *engines[static_cast<size_t>(state.player())];
        engine.think();
        action = engine.chosen();
        ++plies;
      } else {
        action = draw_chance(state, outcomes, rng);
      }
      state.apply(action);
      if constexpr (HasRewards<S>) {
        add(total, state.rewards());
      }
      for (auto& engine : engines) {
        engine->advance(action);
      }
    }
    add(total, state.returns());
    count(out, total, plies);
  }
  out.seconds = seconds_since(start);
  return out;
}

// One game more of out.games.
template <GameState S>
void GameProgram<S>::count(SelfPlay& out, const ReturnsOf<S>& total, int64_t plies) {
  const bool first = out.mean_plies == 0;
  const auto best = std::max_element(total.begin(), total.end());
  if (S::kPlayers > 1 && std::count(total.begin(), total.end(), *best) == 1) {
    ++out.wins[static_cast<size_t>(best - total.begin())];
  } else {
    ++out.draws;
  }
  for (size_t p = 0; p < total.size(); ++p) {
    out.mean_return[p] += static_cast<double>(total[p]) / static_cast<double>(out.games);
  }
  out.lowest = first ? total[0] : std::min<double>(out.lowest, total[0]);
  out.highest = first ? total[0] : std::max<double>(out.highest, total[0]);
  out.mean_plies += static_cast<double>(plies) / static_cast<double>(out.games);
}

template <GameState S>
SelfPlay GameProgram<S>::self_play_batched(const Options& options, [[maybe_unused]] const S& root) {
  SelfPlay out;
  out.game = S::kName;
  out.games = options.games;
  out.wins.assign(S::kPlayers, 0);
  out.mean_return.assign(S::kPlayers, 0);
  if constexpr (HasInformation<S>) {
    throw ConfigError(fmt::format(
        "--parallelism: {} has hidden cards, which a batch does not hide; expected serial",
        S::kName));
  } else {
    RandomRollout rollout{.rollouts = options.rollouts,
                          .discount = static_cast<float>(options.search.discount)};
    AnyEvaluator<AnyGame> evaluator(rollout);
    const int64_t trees = std::min<int64_t>(options.games, 256);
    const SelfPlayOptions plan{
        .batch = {.trees = trees, .groups = 1, .threads = options.search.threads},
        .games = options.games,
        .simulations = std::max<int64_t>(options.simulations, 2),
        .temperature_moves = 0};
    any_searches().self_play(
        options.policy, options.search, plan, [&](int64_t) { return any_game(root); }, evaluator,
        [&](PlayedGame<AnyGame>&& game) {
          ReturnsOf<S> returns;
          std::copy_n(game.returns.begin(), S::kPlayers, returns.begin());
          count(out, returns, static_cast<int64_t>(game.moves.size()));
        });
    return out;
  }
}

template <GameState S>
Bench GameProgram<S>::bench(const Options& options) {
  const S root = decision_from(options);
  Bench out;
  out.game = S::kName;
  out.simulations = options.simulations;
  std::vector<double> rates;
  const auto start = Clock::now();
  while (rates.size() < 3 || (rates.size() < 9 && seconds_since(start) < 1)) {
    Engine<S> engine(options, options.search.seed, options.simulations);
    engine.set_root(root);
    const Analysis a = engine.think();
    rates.push_back(static_cast<double>(a.simulations) / a.seconds);
    out.nodes = a.nodes;
    out.bytes_per_node = static_cast<double>(a.tree_bytes) / static_cast<double>(a.nodes);
  }
  std::sort(rates.begin(), rates.end());
  out.simulations_per_second = rates[rates.size() / 2];
  out.repeats = static_cast<int>(rates.size());
  return out;
}

template <GameState S>
typename GameProgram<S>::Said GameProgram<S>::ask_person(const S& state, const Options& options,
                                                         A& action) {
  for (;;) {
    const auto line = ask(fmt::format("player {}> ", state.player() + 1));
    if (!line || *line == "quit" || *line == "exit") {
      return Said::kQuit;
    }
    if (*line == "undo") {
      return Said::kUndo;
    }
    if (*line == "help" || line->empty()) {
      say("an action, or: moves (what is legal), hint (what the engine would do), undo, quit\n");
    } else if (*line == "moves") {
      const auto actions = actions_of(state);
      std::string names;
      for (const std::string& name : action_names(state, std::span(actions))) {
        names += name + " ";
      }
      say(names + "\n");
    } else if (*line == "hint") {
      Engine<S> engine(options, options.search.seed, options.simulations);
      engine.set_root(state);
      const Analysis a = engine.think();
      say(fmt::format("{}{}\n", visit_table(a, 7), thinking_line(a)));
    } else {
      try {
        action = state.parse_action(*line);
        return Said::kAction;
      } catch (const Error& error) {
        say(fmt::format("{}\n", error.what()));
      }
    }
  }
}

template <GameState S>
void GameProgram<S>::play(const Options& options) {
  const auto is_person = [&](int player) {
    return options.human == "both" || (options.human == "first" && player == 0) ||
           (options.human == "second" && player == 1);
  };
  const int viewer = options.human == "second" ? 1 : 0;
  struct Moment {
    S state;
    ReturnsOf<S> total;
  };
  std::vector<Moment> past;  // where a person was to move
  Moment now{read_position<S>(options.position), {}};
  Random rng(options.search.seed, 3);
  ChanceBufferOf<S> outcomes;
  Engine<S> engine(options, options.search.seed, options.simulations);
  engine.set_root(now.state);
  say(fmt::format("{}; \"help\" says what you can type\n", S::kName));
  while (now.state.player() != kTerminal) {
    A action{};
    if (now.state.player() == kChance) {
      action = draw_chance(now.state, outcomes, rng);
      if constexpr (!HasInformation<S>) {
        say(fmt::format("chance: {}\n", action_text(now.state, action)));
      }
    } else if (is_person(now.state.player())) {
      say("\n" + drawing_for(now.state, options.human == "both" ? now.state.player() : viewer));
      const Said said = ask_person(now.state, options, action);
      if (said == Said::kQuit) {
        return;
      }
      if (said == Said::kUndo) {
        if (past.empty()) {
          say("nothing to take back\n");
          continue;
        }
        now = past.back();
        past.pop_back();
        engine.set_root(now.state);
        continue;
      }
      past.push_back(now);
    } else {
      if (options.human == "none") {
        say("\n" + now.state.draw());
      }
      {
        LiveText live;
        engine.think([&](const Analysis& a) {
          live.show(visit_table(a, 9) + "  " + thinking_line(a) + "\n");
        });
      }
      action = engine.chosen();
      say(fmt::format("player {} plays {}\n", now.state.player() + 1,
                      action_text(now.state, action)));
    }
    now.state.apply(action);
    if constexpr (HasRewards<S>) {
      add(now.total, now.state.rewards());
    }
    engine.advance(action);
  }
  add(now.total, now.state.returns());
  say("\n" + now.state.draw() + result_text(now.total));
}

template <class S>
std::unique_ptr<Program> make_program() {
  return std::make_unique<GameProgram<S>>();
}

}  // namespace mstrain::mcts::play
