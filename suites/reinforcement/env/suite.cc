#include "suites/reinforcement/env/suite.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "suites/reinforcement/env/classic.h"
#include "suites/reinforcement/env/environment.h"
#include "suites/reinforcement/env/games.h"
#include "suites/reinforcement/env/grid_worlds.h"
#include "suites/reinforcement/env/memory_tasks.h"
#include "suites/reinforcement/env/mujoco.h"
#include "suites/reinforcement/env/rollout.h"
#include "suites/reinforcement/env/team_games.h"
#include "suites/run/suite.h"

namespace mstrain::reinforcement {
namespace {

std::string number_or_none(double value) {
  return std::isnan(value) ? "none" : fmt::format("{:g}", value);
}

std::string limit_of(const EnvSpec& spec) {
  return spec.time_limit > 0 ? fmt::format("{} steps", spec.time_limit) : "none";
}

std::string missing(const EnvEntry& entry) {
  return entry.missing == nullptr ? "" : entry.missing();
}

void print_spec(const EnvSpec& spec) {
  fmt::print("{}: {}\n", spec.name, spec.about);
  fmt::print("  observation       {}\n", to_string(spec.observation));
  fmt::print("  action            {}{}\n", to_string(spec.action),
             spec.masks ? ", not all of them legal at all times" : "");
  fmt::print("  agents            {}{}\n", spec.agents,
             spec.turns        ? ", which act in turns"
             : spec.agents > 1 ? ", which act at once"
                               : "");
  fmt::print("  state             {}\n", spec.state_size > 0
                                             ? fmt::format("{} numbers", spec.state_size)
                                             : "no list of numbers (no rollout)");
  fmt::print("  time limit        {}\n", limit_of(spec));
  fmt::print("  reward threshold  {}\n", number_or_none(spec.reward_threshold));
}

int list_environments(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> library;
  const std::vector<Option> options{
      text_option("--library", "FILE", library, "the environment of a shared library")};
  const auto names = parse_arguments(usage, arguments, options);
  if (!names) {
    return kDone;
  }
  if (library) {
    EnvConfig config;
    config.library = library;
    print_spec(make_env(config, 1)->spec());
    return kDone;
  }
  for (const std::string& name : *names) {
    const EnvEntry& entry = find_environment(name);
    print_spec(entry.spec);
    if (const std::string why = missing(entry); !why.empty()) {
      fmt::print("  not here          {}\n", why);
    }
  }
  if (!names->empty()) {
    return kDone;
  }
  size_t width = 0, seen = 0, taken = 0;
  for (const EnvEntry& entry : environments()) {
    width = std::max(width, entry.spec.name.size());
    seen = std::max(seen, to_string(entry.spec.observation.shape).size());
    taken = std::max(taken, to_string(entry.spec.action).size());
  }
  fmt::print("{:<{}}  {:<{}}  {:<{}}  {:>6}  {:>5}  {:>6}\n", "name", width, "seen", seen, "action",
             taken - 2, "agents", "limit", "solved");
  for (const EnvEntry& entry : environments()) {
    const EnvSpec& spec = entry.spec;
    fmt::print("{:<{}}  {:<{}}  {:<{}}  {:>6}  {:>5}  {:>6}  {}\n", spec.name, width,
               to_string(spec.observation.shape), seen, to_string(spec.action), taken, spec.agents,
               spec.time_limit > 0 ? std::to_string(spec.time_limit) : "-",
               std::isnan(spec.reward_threshold) ? "-" : number_or_none(spec.reward_threshold),
               spec.about);
  }
  for (const EnvEntry& entry : environments()) {
    if (const std::string why = missing(entry); !why.empty()) {
      fmt::print("not here: {}: {}\n", entry.spec.name, why);
    }
  }
  return kDone;
}

int roll_out(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> name, library, models, input, output;
  const std::vector<Option> options{
      text_option("--env", "NAME", name, "one of those that mstrain envs lists"),
      text_option("--library", "FILE", library, "in place of a name: that of a shared library"),
      text_option("--models", "DIR", models, "of MuJoCo's tasks: the folder of their models"),
      text_option("--input", "FILE", input,
                  "safetensors with state f64 [n, S] and actions i64 [t, n] or f64 [t, n, D]"),
      text_option("--output", "FILE", output,
                  "safetensors with observations, rewards, terminated, truncated")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  RolloutRequest request;
  if (library) {
    request.environment.library = library;
  } else {
    request.environment.name = required(name, "--env");
  }
  request.environment.models = models;
  request.input = required(input, "--input");
  request.output = required(output, "--output");
  rollout(real_files(), request);
  return kDone;
}

}  // namespace

void add_environment_suite() {
  add_classic_environments();
  add_environment<GridWorld>();
  add_environment<KeyDoor>();
  add_environment<TMaze>();
  add_environment<RepeatCue>();
  add_environment<ClimbingGame>();
  add_environment<TwoStepGame>();
  add_environment<Spread>();
  add_game_environments();
  add_mujoco_environments();
  add_command({{"envs", "[NAME...] [--library FILE]",
                "environments of reinforcement learning with their spaces and limits"},
               list_environments});
  add_command({{"rollout",
                "--env NAME --input in.safetensors --output out.safetensors [--library FILE] "
                "[--models DIR]",
                "an environment on given states and actions; the way to check a port"},
               roll_out});
}

}  // namespace mstrain::reinforcement
