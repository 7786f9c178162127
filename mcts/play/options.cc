#include "mcts/play/options.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "core/base/arguments.h"
#include "core/base/error.h"

namespace mstrain::mcts::play {
namespace {

struct Described {
  std::string name;
  std::string value_name;
  std::string help;
  std::function<void(const std::string&)> set;
};

template <class T>
T number(const std::string& option, const std::string& text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= low && value <= high)) {
    throw ConfigError(fmt::format("{}: expected a {} from {} to {}, found \"{}\"", option,
                                  std::is_integral_v<T> ? "whole number" : "number", low, high,
                                  text));
  }
  return value;
}

std::string choice(const std::string& option, const std::string& text,
                   const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    std::string list;
    for (const std::string& each : choices) {
      list += (list.empty() ? "" : ", ") + each;
    }
    throw ConfigError(fmt::format("{}: expected one of {}; found \"{}\"{}", option, list, text,
                                  did_you_mean(text, choices)));
  }
  return text;
}

constexpr int64_t kMost = 1'000'000'000;

const std::vector<std::string> kPolicies = {"uct",   "uct_tuned",      "puct",   "gumbel",
                                            "rave",  "epsilon_greedy", "wu_uct", "widening",
                                            "graph", "open_loop"};
const std::vector<std::string> kKinds = {"serial", "root",          "leaf",
                                         "tree",   "deterministic", "batched"};

// What was asked for in so many words.
struct Asked {
  std::optional<Parallelism> parallelism;
  bool position = false, human = false;
};

void read_file(const std::string& path, Options& o, Asked& asked) {
  const YamlNode tree = load_config(path);
  ConfigFile file;
  read_config(tree, file);
  o.game = file.game;
  o.policy = file.policy;
  o.simulations = file.simulations;
  o.milliseconds = file.milliseconds;
  o.rollouts = static_cast<int>(file.rollouts);
  o.search = file.search;
  if (find_config(tree, "search.parallelism") != nullptr) {
    asked.parallelism = file.search.parallelism;
  }
}

std::vector<Described> options_for(Options& o, Asked& asked) {
  const auto task = [&o](Task to) {
    if (o.task != Task::kPlay && o.task != to) {
      throw ConfigError("expected one of --analyze, --selfplay, --bench, not several");
    }
    o.task = to;
  };
  return {
      {"--game", "NAME", "the game; --list names them", [&o](const auto& v) { o.game = v; }},
      {"--config", "FILE", "YAML with game, policy, simulations, search: ...; options win over it",
       [&o, &asked](const auto& v) { read_file(v, o, asked); }},
      {"--policy", "NAME",
       "uct (default), uct_tuned, puct, gumbel, rave, epsilon_greedy, wu_uct, widening, graph or "
       "open_loop",
       [&o](const auto& v) { o.policy = choice("--policy", v, kPolicies); }},
      {"--list", "", "name the games", [task](const auto&) { task(Task::kList); }},
      {"--analyze", "POSITION",
       "search a position: the moves from the start (connect four: columns, as 4453), or a board",
       [&o, task](const auto& v) {
         task(Task::kAnalyze);
         o.position = v;
       }},
      {"--selfplay", "N", "let the engine play N games against itself",
       [&o, task](const auto& v) {
         task(Task::kSelfPlay);
         o.games = number<int64_t>("--selfplay", v, 1, kMost);
       }},
      {"--bench", "", "measure simulations per second from the start",
       [task](const auto&) { task(Task::kBench); }},
      {"--position", "POSITION", "where to begin when playing",
       [&o, &asked](const auto& v) {
         asked.position = true;
         o.position = v;
       }},
      {"--human", "WHO", "who you are: first (default), second, both or none",
       [&o, &asked](const auto& v) {
         asked.human = true;
         o.human = choice("--human", v, {"first", "second", "both", "none"});
       }},
      {"--sims", "N", "simulations of a move (default 10000; 100000 for --bench)",
       [&o](const auto& v) { o.simulations = number<int64_t>("--sims", v, 1, kMost); }},
      {"--opponent-sims", "N", "self-play: simulations of the second player (default: the same)",
       [&o](const auto& v) {
         o.opponent_simulations = number<int64_t>("--opponent-sims", v, 1, kMost);
       }},
      {"--time", "MS", "milliseconds of a move",
       [&o](const auto& v) { o.milliseconds = number<double>("--time", v, 0.01, 1e9); }},
      {"--seed", "S", "of everything random (default 0)",
       [&o](const auto& v) { o.search.seed = number<uint64_t>("--seed", v, 0, ~uint64_t{0}); }},
      {"--threads", "N", "threads of the search (default 1)",
       [&o](const auto& v) { o.search.threads = number<int64_t>("--threads", v, 1, 1024); }},
      {"--parallelism", "KIND",
       "serial, root, leaf, tree, deterministic (default: tree with several threads), or batched "
       "for --selfplay",
       [&asked](const auto& v) {
         const std::string kind = choice("--parallelism", v, kKinds);
         asked.parallelism = static_cast<Parallelism>(
             std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin());
       }},
      {"--uct_c", "C", "exploration (default 2)",
       [&o](const auto& v) { o.search.uct_c = number<double>("--uct_c", v, 0, 1e6); }},
      {"--rollouts", "N", "random games for each leaf (default 1)",
       [&o](const auto& v) { o.rollouts = number<int>("--rollouts", v, 1, 1'000'000); }},
      {"--solve", "", "propagate proven wins, losses and draws",
       [&o](const auto&) { o.search.solve = true; }},
      {"--memory", "MB", "of the tree (default 1024)",
       [&o](const auto& v) {
         o.search.memory_limit = number<int64_t>("--memory", v, 1, 16384) << 20;
       }},
      {"--json", "", "results as JSON", [&o](const auto&) { o.json = true; }},
      {"--tree", "FILE", "draw the most visited part of the tree: FILE.svg or FILE.dot",
       [&o](const auto& v) {
         if (!v.ends_with(".svg") && !v.ends_with(".dot")) {
           throw ConfigError(
               fmt::format("--tree: expected a name that ends in .svg or .dot, found \"{}\"", v));
         }
         o.tree_file = v;
       }},
      {"--tree-nodes", "N", "nodes in the drawing (default 40)",
       [&o](const auto& v) { o.tree_nodes = number<int64_t>("--tree-nodes", v, 1, 5000); }},
      {"--help", "", "this text", [&o](const auto&) { o.task = Task::kHelp; }},
      {"--version", "", "the version", [&o](const auto&) { o.task = Task::kVersion; }},
  };
}

void check_go_together(const Options& o, const Asked& asked) {
  if (asked.position && o.task == Task::kAnalyze) {
    throw ConfigError("--position: says where games begin; --analyze has a position of its own");
  }
  if (asked.human && o.task != Task::kPlay) {
    throw ConfigError("--human: belongs to a game at the terminal, without another task");
  }
  if (o.opponent_simulations > 0 && o.task != Task::kSelfPlay) {
    throw ConfigError("--opponent-sims: belongs to --selfplay");
  }
  if (!o.tree_file.empty() && o.task != Task::kAnalyze) {
    throw ConfigError("--tree: belongs to --analyze");
  }
  if (asked.parallelism == Parallelism::kBatched &&
      (o.task != Task::kSelfPlay || o.opponent_simulations > 0)) {
    throw ConfigError(
        "--parallelism: batched plays many games at once: it belongs to --selfplay without "
        "--opponent-sims");
  }
  if (asked.parallelism == Parallelism::kBatched && o.milliseconds > 0) {
    throw ConfigError("--time: self-play in batches counts simulations; expected --sims");
  }
  if (o.json && (o.task == Task::kPlay || o.task == Task::kList)) {
    throw ConfigError("--json: belongs to --analyze, --selfplay or --bench");
  }
}

}  // namespace

Budget Options::budget(int64_t simulations_of_player) const {
  Budget out;
  if (milliseconds > 0) {
    out = Budget::milliseconds(milliseconds);
  }
  out.simulations = simulations_of_player;
  return out;
}

Options parse_options(std::span<const std::string> arguments) {
  Options out;
  Asked asked;
  std::vector<Option> known;
  for (const Described& each : options_for(out, asked)) {
    known.push_back({each.name, each.value_name, each.set});
  }
  // The file first: what stands on the command line wins.
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" || arguments[i].starts_with("--config=")) {
      i = take_option(arguments, i, known, "mcts_play");
    }
  }
  const auto config = std::find_if(known.begin(), known.end(),
                                   [](const Option& each) { return each.name == "--config"; });
  config->set = [](const auto&) {};
  for (size_t i = 0; i < arguments.size() && out.task != Task::kHelp; ++i) {
    i = take_option(arguments, i, known, "mcts_play");
  }
  if (out.simulations == 0 && (out.milliseconds == 0 || out.task == Task::kBench)) {
    out.simulations = out.task == Task::kBench ? 100'000 : 10'000;
  }
  if (out.task != Task::kHelp && out.task != Task::kVersion) {
    check_go_together(out, asked);
  }
  out.search.parallelism = asked.parallelism.value_or(
      out.search.threads > 1 ? Parallelism::kTree : Parallelism::kSerial);
  return out;
}

std::string help_text() {
  Options ignored;
  Asked asked;
  std::string out =
      "mcts_play: Monte-Carlo tree search at the terminal\n\n"
      "  mcts_play --game NAME [--human WHO]               play against the engine\n"
      "  mcts_play --game NAME --analyze POSITION          search one position\n"
      "  mcts_play --game NAME --selfplay N                let it play against itself\n"
      "  mcts_play --game NAME --bench                     measure it\n\n";
  for (const Described& option : options_for(ignored, asked)) {
    out += fmt::format("  {:<22} {}\n", option.name + " " + option.value_name, option.help);
  }
  return out;
}

}  // namespace mstrain::mcts::play
