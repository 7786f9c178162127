#include "suites/reinforcement/alphazero/commands.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "mcts/play/program.h"
#include "suites/reinforcement/alphazero/match.h"
#include "suites/reinforcement/alphazero/openings.h"
#include "suites/reinforcement/run/play.h"
#include "suites/run/suite.h"

namespace mstrain::alphazero {
namespace {

constexpr std::string_view kUct = "uct:";

int all_threads() { return current_context().num_threads(); }

int64_t count_value(const char* option, const std::string& text, int64_t least) {
  const int64_t value = integer_value(option, text);
  if (value < least || value > 100'000'000) {
    throw ConfigError(fmt::format("{}: expected {} to 100000000, found {}", option, least, text));
  }
  return value;
}

Option search_option(std::optional<SearchKind>& search) {
  return {"--search", "HOW",
          [&](const std::string& text) {
            const auto known = {SearchKind::kPuct, SearchKind::kGumbel};
            const auto found = std::ranges::find_if(
                known, [&](SearchKind kind) { return text == policy_of(kind); });
            if (found == known.end()) {
              throw ConfigError(fmt::format("--search: expected puct or gumbel, found {}", text));
            }
            search = *found;
          },
          "puct, which proves results, or gumbel: how networks search (default: evaluation.search "
          "of their runs)"};
}

// What --a or --b names.
struct Side {
  Side(const char* option, const std::string& text, const BoardGame& game, int64_t simulations,
       std::optional<SearchKind> search) {
    if (text.starts_with(kUct)) {
      contestant =
          uct_contestant(game, count_value(option, text.substr(kUct.size()), 2), all_threads());
      return;
    }
    if (!real_files().exists(text)) {
      throw ConfigError(
          fmt::format("{}: no run or checkpoint is at {}; a search with N random games for a move "
                      "is uct:N, as uct:1000",
                      option, text));
    }
    agent = load_agent(real_files(), text, all_threads());
    if (agent->game().name() != game.name()) {
      throw ConfigError(fmt::format("{}: {} plays {}; expected {}", option, text,
                                    agent->game().name(), game.name()));
    }
    if (search) {
      agent->search_by(*search);
    }
    contestant = network_contestant(text, agent->config(), agent->evaluator(), simulations);
  }

  std::unique_ptr<Agent> agent;  // null: UCT
  std::unique_ptr<Contestant> contestant;
};

OrderedJson tally_json(const Tally& tally) {
  return {{"wins", tally.wins}, {"draws", tally.draws}, {"losses", tally.losses}};
}

OrderedJson number_or_null(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

int arena(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> game_name, a, b;
  int64_t games = 200;
  int64_t simulations = 100;
  std::optional<SearchKind> search;
  uint64_t seed = 0;
  bool json = false;
  const std::vector<Option> options{
      text_option("--game", "NAME", game_name, "a game of two players; mcts_play --list names all"),
      text_option("--a", "WHO", a,
                  "a checkpoint or run of alphazero, or uct:N for a search of N random games"),
      text_option("--b", "WHO", b, "the same"),
      {"--games", "N", [&](const std::string& text) { games = count_value("--games", text, 2); },
       "an even number (default 200): each opening is played with both colours"},
      {"--sims", "N",
       [&](const std::string& text) { simulations = count_value("--sims", text, 2); },
       "simulations of a network's move (default 100)"},
      search_option(search),
      {"--seed", "S",
       [&](const std::string& text) {
         seed = static_cast<uint64_t>(count_value("--seed", text, 0));
       },
       "of openings and searches (default 0): equal seeds, equal games"},
      flag("--json", json, "one JSON object")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  if (games % 2 != 0) {
    throw ConfigError(fmt::format("--games: expected an even number, found {}", games));
  }
  const BoardGame game(required(game_name, "--game NAME"), "--game");
  if (game.start().players() != 2) {
    throw ConfigError(fmt::format("--game: {} is no game for two", game.name()));
  }
  check_openings(game, games, "--games");
  const Side first("--a", required(a, "--a WHO"), game, simulations, search);
  const Side second("--b", required(b, "--b WHO"), game, simulations, search);
  const MatchResult result =
      play_match(game, *first.contestant, *second.contestant, games, seed, stop);
  const Tally all = result.all();
  if (json) {
    fmt::print("{}\n", OrderedJson{{"game", game.name()},
                                   {"a", *a},
                                   {"b", *b},
                                   {"games", games},
                                   {"simulations", simulations},
                                   {"seed", seed},
                                   {"wins", all.wins},
                                   {"draws", all.draws},
                                   {"losses", all.losses},
                                   {"a_first", tally_json(result.by_colour[0])},
                                   {"a_second", tally_json(result.by_colour[1])},
                                   {"score", result.score()},
                                   {"score_error", result.standard_error()},
                                   {"elo", number_or_null(result.elo())},
                                   {"elo_low", number_or_null(result.elo_low())},
                                   {"elo_high", number_or_null(result.elo_high())}}
                           .dump());
    return kDone;
  }
  const auto line = [](const char* when, const Tally& tally) {
    fmt::print("  {:<16} {:>5} won {:>5} drawn {:>5} lost\n", when, tally.wins, tally.draws,
               tally.losses);
  };
  fmt::print("{}: {} against {}, {} games\n", game.name(), *a, *b, games);
  line("a moves first", result.by_colour[0]);
  line("a moves second", result.by_colour[1]);
  line("together", all);
  fmt::print("  score {:.3f} +- {:.3f}, Elo {} (95 %: {} to {})\n", result.score(),
             result.standard_error(), elo_text(result.elo()), elo_text(result.elo_low()),
             elo_text(result.elo_high()));
  return kDone;
}

int play(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> checkpoint, human;
  std::optional<std::string> position;
  std::optional<SearchKind> search;
  mcts::play::Options play;
  play.simulations = 100;
  const std::vector<Option> options{
      text_option("--checkpoint", "DIR", checkpoint, "a run of alphazero, or a checkpoint of one"),
      text_option("--position", "MOVES", position,
                  "look at this position: moves from the start, as 4453, or a board"),
      {"--sims", "N",
       [&](const std::string& text) { play.simulations = count_value("--sims", text, 2); },
       "simulations of a move (default 100)"},
      search_option(search),
      {"--seed", "S",
       [&](const std::string& text) {
         play.search.seed = static_cast<uint64_t>(count_value("--seed", text, 0));
       },
       "of the search (default 0)"},
      text_option("--human", "WHO", human, "first (default), second, both or none: who you play"),
      flag("--json", play.json, "with --position: one JSON object")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  if (play.json && !position) {
    throw ConfigError("--json: goes with --position");
  }
  if (human) {
    static const std::vector<std::string> kKnown{"first", "second", "both", "none"};
    if (std::find(kKnown.begin(), kKnown.end(), *human) == kKnown.end()) {
      throw ConfigError(fmt::format("--human: expected first, second, both or none, found {}{}",
                                    *human, did_you_mean(*human, kKnown)));
    }
    play.human = *human;
  }
  const auto agent =
      load_agent(real_files(), required(checkpoint, "--checkpoint DIR"), all_threads());
  if (search) {
    agent->search_by(*search);
  }
  const uint64_t seed = play.search.seed;
  play.search = agent->config().search_config();
  play.search.seed = seed;
  play.policy = agent->policy();
  play.position = position.value_or("");
  const mcts::play::Program program(agent->game().name(), &agent->evaluator());
  if (!position) {
    program.play(play);
    return kDone;
  }
  const mcts::play::Analysis found = program.analyze(play, nullptr);
  if (!play.json) {
    fmt::print("{}", to_text(found));
    return kDone;
  }
  OrderedJson policy = OrderedJson::object();
  for (const mcts::play::ActionRow& row : found.root) {
    policy[row.action] = row.weight;
  }
  fmt::print(
      "{}\n",
      OrderedJson{{"best_action", found.best_action}, {"value", found.value}, {"policy", policy}}
          .dump());
  return kDone;
}

}  // namespace

void add_alphazero_commands() {
  add_command(
      {{"arena",
        "--game NAME --a WHO --b WHO [--games N] [--sims N] [--search HOW] [--seed S] [--json]",
        "matches of two players of a game: a run of alphazero, or uct:N; Elo with error "
        "bars"},
       arena});
  reinforcement::add_play_kind(
      {kAgentFile,
       {{"play",
         "--checkpoint DIR [--position MOVES [--json]] [--sims N] [--search HOW] [--seed S] "
         "[--human WHO]",
         "a run of alphazero: play against it, or see what it thinks of a position"},
        play}});
}

}  // namespace mstrain::alphazero
