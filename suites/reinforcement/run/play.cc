#include "suites/reinforcement/run/play.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "suites/run/stored_model.h"

namespace mstrain::reinforcement {
namespace {

std::vector<PlayKind>& play_kinds() {
  static std::vector<PlayKind> kinds;
  return kinds;
}

// What follows --checkpoint; empty where it is not there.
std::string checkpoint_among(Arguments arguments) {
  constexpr std::string_view kName = "--checkpoint";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& each = arguments[i];
    if (each.starts_with(std::string(kName) + "=")) {
      return each.substr(kName.size() + 1);
    }
    if (each == kName && i + 1 < arguments.size()) {
      return arguments[i + 1];
    }
  }
  return "";
}

int play(const Usage&, Arguments arguments, const std::atomic<bool>& stop) {
  const std::string given = checkpoint_among(arguments);
  if (given.empty() && asks_for_help(arguments)) {
    for (const PlayKind& kind : play_kinds()) {
      kind.command.run(kind.command.usage, arguments, stop);
    }
    return kDone;
  }
  if (given.empty()) {
    throw ConfigError("--checkpoint DIR is missing");
  }
  FileSystem& files = real_files();
  const std::string folder = find_checkpoint(files, given);
  std::vector<std::string> wanted;
  for (const PlayKind& kind : play_kinds()) {
    if (files.exists(join_path(folder, kind.file))) {
      return kind.command.run(kind.command.usage, arguments, stop);
    }
    wanted.push_back(kind.file);
  }
  throw ConfigError(fmt::format("--checkpoint: {} holds nothing that plays; expected a file {}",
                                folder, fmt::join(wanted, " or ")));
}

}  // namespace

void add_play_kind(const PlayKind& kind) {
  if (play_kinds().empty()) {
    add_command({{"play", "--checkpoint DIR ...",
                  "what a run learned to do; --help with a checkpoint says what it takes"},
                 play});
  }
  play_kinds().push_back(kind);
}

}  // namespace mstrain::reinforcement
