// mstrain keys: the reference of a configuration, from the declarations of its keys.
#include <fmt/core.h>

#include <algorithm>

#include "core/base/config.h"
#include "core/base/error.h"
#include "launcher/commands.h"

namespace mstrain::launcher {
namespace {

bool is_within(std::string_view key, std::string_view name) {
  return key == name || (key.starts_with(name) && key.substr(name.size()).starts_with('.'));
}

[[noreturn]] void fail_unknown(const std::string& name, const std::vector<ConfigKeyDoc>& all) {
  std::vector<std::string> known;
  for (const ConfigKeyDoc& key : all) {
    for (size_t end = key.path.find('.'); end != std::string::npos;
         end = key.path.find('.', end + 1)) {
      known.push_back(key.path.substr(0, end));
    }
    known.push_back(key.path);
  }
  std::string meant = did_you_mean(name, known);
  for (const ConfigKeyDoc& key : all) {
    if (meant.empty() && key.path.ends_with('.' + name)) {
      meant = fmt::format("; did you mean {}?", key.path);
    }
  }
  throw ConfigError(fmt::format("keys: there is no section or key {} here{}", name, meant));
}

}  // namespace

int keys(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> config;
  const std::vector<Option> options{
      text_option("--config", "FILE", config, "its kind of run is meant")};
  const auto rest = parse_arguments(usage, arguments, options);
  if (!rest) {
    return kDone;
  }
  std::vector<std::string> names, overrides;
  for (const std::string& word : *rest) {
    (word.find('=') == std::string::npos ? names : overrides).push_back(word);
  }
  YamlNode tree = config ? load_config(*config) : YamlNode::map();
  apply_overrides(tree, overrides);
  const std::vector<ConfigKeyDoc> all = keys_of(tree);
  for (const std::string& name : names) {
    if (std::ranges::none_of(all,
                             [&](const ConfigKeyDoc& key) { return is_within(key.path, name); })) {
      fail_unknown(name, all);
    }
  }
  for (const ConfigKeyDoc& key : all) {
    if (names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
          return is_within(key.path, name);
        })) {
      fmt::print("{}: {}\n    {} ({})\n", key.path, key.is_required ? "required" : key.value,
                 key.doc, key.type);
    }
  }
  return kDone;
}

}  // namespace mstrain::launcher
