#include "suites/reinforcement/env/environment.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "suites/reinforcement/env/plugin.h"
#include "suites/reinforcement/env/wrappers.h"

namespace mstrain::reinforcement {
namespace {

std::vector<EnvEntry>& entries() {
  static std::vector<EnvEntry> all;
  return all;
}

bool is_same(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

}  // namespace

std::string to_string(const Space& space) {
  if (space.is_discrete()) {
    return fmt::format("discrete 0 … {}", space.n - 1);
  }
  const std::string shape = to_string(space.shape);
  if (space.low.empty()) {
    return fmt::format("box {}", shape);
  }
  if (is_same(space.low) && is_same(space.high)) {
    return fmt::format("box {} in {:.4g} … {:.4g}", shape, space.low[0], space.high[0]);
  }
  if (space.low.size() > 8) {
    return fmt::format("box {} in {:.4g} … {:.4g}", shape,
                       *std::min_element(space.low.begin(), space.low.end()),
                       *std::max_element(space.high.begin(), space.high.end()));
  }
  return fmt::format("box {} from [{:.4g}] to [{:.4g}]", shape, fmt::join(space.low, ", "),
                     fmt::join(space.high, ", "));
}

void VectorEnv::action_masks(uint8_t*) const {
  fail("{}: every action is always legal; there are no masks", spec().name);
}

void VectorEnv::to_move(int32_t*) const { fail("{}: all agents act at once", spec().name); }

void add_environment(const EnvEntry& entry) {
  for (const EnvEntry& known : entries()) {
    check(known.spec.name != entry.spec.name, "add_environment: {} is there already",
          entry.spec.name);
  }
  entries().push_back(entry);
}

const std::vector<EnvEntry>& environments() { return entries(); }

const EnvEntry& find_environment(std::string_view name) {
  std::vector<std::string> names;
  for (const EnvEntry& entry : entries()) {
    if (entry.spec.name == name) {
      return entry;
    }
    names.push_back(entry.spec.name);
  }
  throw ConfigError(fmt::format("environment \"{}\": unknown{}; there are {}", name,
                                did_you_mean(name, names), fmt::join(names, ", ")));
}

std::string models_unread(const EnvConfig& config) {
  const bool read = !config.library && find_environment(config.called()).reads_models;
  return !config.models || read
             ? ""
             : fmt::format("{} reads none, as MuJoCo's tasks do; leave it out", config.called());
}

std::unique_ptr<VectorEnv> make_env(const EnvConfig& config, int64_t n) {
  check(n >= 1, "{}: {} environments; at least 1", config.called(), n);
  if (const std::string why = models_unread(config); !why.empty()) {
    throw ConfigError("environment.models: " + why);
  }
  return wrapped(config.library ? make_plugin_env(*config.library, config, n)
                                : find_environment(config.called()).make(config, n),
                 config);
}

}  // namespace mstrain::reinforcement
