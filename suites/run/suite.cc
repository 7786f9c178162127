#include "suites/run/suite.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

std::vector<Command>& commands() {
  static std::vector<Command> all;
  return all;
}

std::vector<RunKind>& run_kinds() {
  static std::vector<RunKind> all;
  return all;
}

}  // namespace

void add_command(const Command& command) {
  check(std::none_of(commands().begin(), commands().end(),
                     [&](const Command& known) {
                       return std::string_view(known.usage.name) == command.usage.name;
                     }),
        "add_command: {} is there already", command.usage.name);
  commands().push_back(command);
}

const std::vector<Command>& added_commands() { return commands(); }

void add_run_kind(const RunKind& kind) {
  check(std::none_of(run_kinds().begin(), run_kinds().end(),
                     [&](const RunKind& known) { return known.section == kind.section; }),
        "add_run_kind: {} is there already", kind.section);
  run_kinds().push_back(kind);
}

const RunKind* run_kind_of(const YamlNode& tree) {
  for (const RunKind& kind : run_kinds()) {
    if (tree.is_map() && tree.find(kind.section) != nullptr) {
      return &kind;
    }
  }
  return nullptr;
}

}  // namespace mstrain
