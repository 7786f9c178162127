#include "suites/run/suite.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/config.h"
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
                     [&](const RunKind& known) {
                       return known.section == kind.section && known.type == kind.type;
                     }),
        "add_run_kind: {}.type {} is there already", kind.section, kind.type);
  run_kinds().push_back(kind);
}

const RunKind* run_kind_of(const YamlNode& tree) {
  std::vector<std::string> types;
  std::string key;
  std::string found;
  for (const RunKind& kind : run_kinds()) {
    const YamlNode* section = tree.is_map() ? tree.find(kind.section) : nullptr;
    if (section == nullptr) {
      continue;
    }
    if (!section->is_map() && !section->is_null()) {
      config_fail(tree, kind.section,
                  fmt::format("expected a section with {}.type, found {}", kind.section,
                              describe(*section)));
    }
    const YamlNode* type = section->is_map() ? section->find("type") : nullptr;
    if (type != nullptr && type->text == kind.type) {
      return &kind;
    }
    key = kind.section + ".type";
    found = type == nullptr ? "nothing" : type->text;
    types.push_back(kind.type);
  }
  if (!types.empty()) {
    config_fail(tree, key,
                fmt::format("expected one of {}, found {}{}", fmt::join(types, ", "), found,
                            did_you_mean(found, types)));
  }
  return nullptr;
}

}  // namespace mstrain
