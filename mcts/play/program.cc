#include "mcts/play/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "mcts/chance.h"
#include "mcts/games/text.h"
#include "mcts/play/terminal.h"

namespace mstrain::mcts::play {
namespace {

using Clock = std::chrono::steady_clock;
using Total = Returns<AnyGame::kPlayers>;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void add(Total& total, const Total& values) {
  for (size_t p = 0; p < total.size(); ++p) {
    total[p] += values[p];
  }
}

// The players' own numbers.
std::span<const float> of_players(const AnyGame::Facts& facts, const Total& total) {
  return std::span(total).first(static_cast<size_t>(facts.players));
}

}  // namespace

// Moves from the start, or a whole position. Errors speak of whichever the text looks like.
AnyGame Program::read_position(const std::string& text) const {
  const Playable& playable = *game_.playable;
  try {
    if (!playable.has_positions() || text.find('/') == std::string::npos) {
      try {
        return play_moves(game_.start, text);
      } catch (const Error&) {
        if (playable.has_positions()) {
          try {
            return playable.from_position(text);
          } catch (const Error&) {
          }
        }
        throw;
      }
    }
    return playable.from_position(text);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

// options.position; where chance is to move there, its outcomes are drawn until a player is.
AnyGame Program::decision_from(const Options& options) const {
  AnyGame state = read_position(options.position);
  Random rng(options.search.seed, 1);
  ChanceBuffer outcomes;
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

Analysis Program::analyze(const Options& options, Picture* picture) const {
  const AnyGame root = decision_from(options);
  Engine engine = this->engine(options, options.search.seed, options.simulations);
  engine.set_root(root);
  Analysis out = engine.think();
  if (picture != nullptr) {
    *picture = engine.picture(out, options.tree_nodes);
  }
  return out;
}

std::string Program::result_text(const Total& total) const {
  const auto values = of_players(game_.facts(), total);
  if (values.size() == 1) {
    return fmt::format("the game is over; result {:.4f}\n", values[0]);
  }
  const auto best = std::max_element(values.begin(), values.end());
  if (std::count(values.begin(), values.end(), *best) > 1) {
    return "the game is over: a draw\n";
  }
  return fmt::format("the game is over: player {} wins ({:+g})\n", best - values.begin() + 1,
                     *best);
}

SelfPlay Program::start_of(const Options& options) const {
  const auto players = static_cast<size_t>(game_.facts().players);
  SelfPlay out;
  out.game = game_.name;
  out.games = options.games;
  out.wins.assign(players, 0);
  out.mean_return.assign(players, 0);
  return out;
}

SelfPlay Program::self_play(const Options& options) const {
  const auto start = Clock::now();
  SelfPlay out = start_of(options);
  ChanceBuffer outcomes;
  const AnyGame root = read_position(options.position);
  if (root.player() == kTerminal) {
    throw ConfigError("position: the game is over; nothing is left to play");
  }
  if (options.opponent_simulations > 0 && game_.facts().players < 2) {
    throw ConfigError(
        fmt::format("--opponent-sims: {} has one player, whom nobody opposes", game_.name));
  }
  if (options.search.parallelism == Parallelism::kBatched) {
    out = self_play_batched(options, root);
    out.seconds = seconds_since(start);
    return out;
  }
  for (int64_t game = 0; game < options.games; ++game) {
    Random rng(options.search.seed, 2, static_cast<uint64_t>(game));
    std::vector<std::unique_ptr<Engine>> engines;
    for (int player = 0; player < game_.facts().players; ++player) {
      const bool other = player == 1 && options.opponent_simulations > 0;
      engines.push_back(std::make_unique<Engine>(
          game_, options, rng.next_u64(),
          other ? options.opponent_simulations : options.simulations, evaluator_));
      engines.back()->set_root(root);
    }
    AnyGame state = root;
    Total total{};
    int64_t plies = 0;
    while (state.player() != kTerminal) {
      Action action{};
      if (state.player() >= 0) {
        Engine& engine = *engines[static_cast<size_t>(state.player())];
        engine.think();
        action = engine.chosen();
        ++plies;
      } else {
        action = draw_chance(state, outcomes, rng);
      }
      state.apply(action);
      add(total, state.rewards());
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
void Program::count(SelfPlay& out, const Total& total, int64_t plies) const {
  const bool first = out.mean_plies == 0;
  const auto values = of_players(game_.facts(), total);
  const auto best = std::max_element(values.begin(), values.end());
  if (values.size() > 1 && std::count(values.begin(), values.end(), *best) == 1) {
    ++out.wins[static_cast<size_t>(best - values.begin())];
  } else {
    ++out.draws;
  }
  for (size_t p = 0; p < values.size(); ++p) {
    out.mean_return[p] += static_cast<double>(values[p]) / static_cast<double>(out.games);
  }
  out.lowest = first ? values[0] : std::min<double>(out.lowest, values[0]);
  out.highest = first ? values[0] : std::max<double>(out.highest, values[0]);
  out.mean_plies += static_cast<double>(plies) / static_cast<double>(out.games);
}

// Games in common batches (parallelism: batched).
SelfPlay Program::self_play_batched(const Options& options, const AnyGame& root) const {
  if (game_.hides()) {
    throw ConfigError(fmt::format(
        "--parallelism: {} has hidden cards, which a batch does not hide; expected serial",
        game_.name));
  }
  SelfPlay out = start_of(options);
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
      options.policy, options.search, plan, [&](int64_t) { return root; }, evaluator,
      [&](PlayedGame<AnyGame>&& game) {
        count(out, game.returns, static_cast<int64_t>(game.moves.size()));
      });
  return out;
}

Bench Program::bench(const Options& options) const {
  const AnyGame root = decision_from(options);
  Bench out;
  out.game = game_.name;
  out.simulations = options.simulations;
  std::vector<double> rates;
  const auto start = Clock::now();
  while (rates.size() < 3 || (rates.size() < 9 && seconds_since(start) < 1)) {
    Engine engine = this->engine(options, options.search.seed, options.simulations);
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

Program::Said Program::ask_person(const AnyGame& state, const Options& options,
                                  Action& action) const {
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
      Engine engine = this->engine(options, options.search.seed, options.simulations);
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

void Program::play(const Options& options) const {
  const auto is_person = [&](int player) {
    return options.human == "both" || (options.human == "first" && player == 0) ||
           (options.human == "second" && player == 1);
  };
  const Playable& playable = *game_.playable;
  const int viewer = options.human == "second" ? 1 : 0;
  struct Moment {
    AnyGame state;
    Total total;
  };
  std::vector<Moment> past;  // where a person was to move
  Moment now{read_position(options.position), {}};
  Random rng(options.search.seed, 3);
  ChanceBuffer outcomes;
  Engine engine = this->engine(options, options.search.seed, options.simulations);
  engine.set_root(now.state);
  say(fmt::format("{}; \"help\" says what you can type\n", game_.name));
  while (now.state.player() != kTerminal) {
    Action action{};
    if (now.state.player() == kChance) {
      action = draw_chance(now.state, outcomes, rng);
      if (!game_.hides()) {
        say(fmt::format("chance: {}\n", action_text(now.state, action)));
      }
    } else if (is_person(now.state.player())) {
      say("\n" +
          playable.draw_for(now.state, options.human == "both" ? now.state.player() : viewer));
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
        say("\n" + playable.draw(now.state));
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
    add(now.total, now.state.rewards());
    engine.advance(action);
  }
  add(now.total, now.state.returns());
  say("\n" + playable.draw(now.state) + result_text(now.total));
}

}  // namespace mstrain::mcts::play
