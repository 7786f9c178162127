// mcts_play: play against the search, look at what it thinks, measure it. docs/mcts.md shows it at work.
#include <fmt/core.h>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/standard_output.h"
#include "core/base/version.h"
#include "mcts/play/options.h"
#include "mcts/play/program.h"
#include "mcts/play/terminal.h"

namespace mstrain::mcts::play {
namespace {

template <class Found>
void print(const Found& found, bool json) {
  say(json ? to_json(found).dump() + "\n" : to_text(found));
}

void run(const Options& options) {
  if (options.task == Task::kHelp) {
    say(help_text());
    return;
  }
  if (options.task == Task::kVersion) {
    say(fmt::format("mcts_play {}\n", version()));
    return;
  }
  if (options.task == Task::kList) {
    for (const GameEntry& game : all_games()) {
      say(fmt::format("{:<14} {}\n", game.name, game.summary));
    }
    return;
  }
  const Program program(options.game);
  switch (options.task) {
    case Task::kAnalyze: {
      // A search may take long: what it could not be written to is told of in front of it.
      if (const std::string folder = parent_path(options.tree_file);
          !options.tree_file.empty() && !real_files().is_directory(folder)) {
        throw ConfigError(fmt::format("--tree: {}: there is no such folder", folder));
      }
      Picture picture;
      print(program.analyze(options, options.tree_file.empty() ? nullptr : &picture), options.json);
      if (!options.tree_file.empty()) {
        write_file_atomic(real_files(), options.tree_file,
                          options.tree_file.ends_with(".svg") ? to_svg(picture) : to_dot(picture));
      }
      break;
    }
    case Task::kSelfPlay: print(program.self_play(options), options.json); break;
    case Task::kBench: print(program.bench(options), options.json); break;
    default: program.play(options);
  }
}

}  // namespace
}  // namespace mstrain::mcts::play

int main(int argc, char** argv) {
  enum Status { kDone = 0, kFailed = 1, kBadUsage = 2 };
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    mstrain::mcts::play::run(mstrain::mcts::play::parse_options(arguments));
    mstrain::finish_output();
    return kDone;
  } catch (const mstrain::ConfigError& error) {
    fmt::print(stderr, "mcts_play: {}\n", error.what());
    return kBadUsage;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "mcts_play: memory ran out\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "mcts_play: {}\n", error.what());
  }
  return kFailed;
}
