// What a suite adds to the command beside models (suites/run/model_run.h): commands of its own, and kinds of runs that train no
// model by a task.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "suites/run/arguments.h"
#include "suites/run/run.h"

namespace mstrain {

using Arguments = std::span<const std::string>;

inline constexpr int kDone = 0;
inline constexpr int kInterrupted = 130;

struct Command {
  Usage usage;
  // With the arguments after the command's name; returns the exit status. Throws ConfigError for bad usage, Error else.
  int (*run)(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop);
};

// Once for each name, before any of them runs.
void add_command(const Command& command);
const std::vector<Command>& added_commands();

// Each function as the one of that name in suites/run/run.h, which asks for it where a configuration is of this kind.
struct RunKind {
  std::string section;  // configurations that have it are of this kind: "algorithm",
  std::string type;     // where its key `type` says so: "ppo"
  Outcome (*run)(const RunRequest& request);
  void (*dry_run)(const RunRequest& request, const DryRun& options);
  YamlNode (*resolved_config)(FileSystem& files, const YamlNode& tree);
  void (*check_many_ranks)(FileSystem& files, const YamlNode& tree, int64_t ranks);
  std::vector<ConfigKeyDoc> (*keys)(const YamlNode& tree);
};

// Once for each section and type, before any run.
void add_run_kind(const RunKind& kind);
// Null: the configuration is a model's. Throws ConfigError, with the line, where the section is there and its type is none that is known.
const RunKind* run_kind_of(const YamlNode& tree);

}  // namespace mstrain
