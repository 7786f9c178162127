#include "core/train/previous_run.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/written_yaml.h"
#include "core/train/metrics_file.h"
#include "core/train/run_directory.h"
#include "core/train/run_record.h"
#include "core/train/sweep.h"

namespace mstrain {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;

bool is_asked_for(const KeyChange& change, const std::vector<std::string>& asked) {
  return std::any_of(asked.begin(), asked.end(),
                     [&](const std::string& key) { return unit_of(key) == unit_of(change.key); });
}

// Throws ConfigError for `changes` that nobody asked for, now or when the run was last started, which changed all but `since`.
void check_changes(const std::string& path, const std::vector<KeyChange>& changes,
                   const std::vector<KeyChange>& since, const SessionStart& start) {
  std::string refused;
  bool could_change = true;
  for (const KeyChange& change : changes) {
    const Changing may = may_change(change.key);
    const bool is_new = std::any_of(since.begin(), since.end(),
                                    [&](const KeyChange& each) { return each.key == change.key; });
    if (is_new && (may == Changing::kNever ||
                   (may == Changing::kOnRequest && !is_asked_for(change, start.changes)))) {
      refused += (refused.empty() ? "" : "; ") + describe(change);
      could_change = could_change && may == Changing::kOnRequest;
    }
  }
  if (!refused.empty()) {
    throw ConfigError(fmt::format(
        "{}: this run began with other values ({}); restore them, {}choose another run.output_dir, "
        "or begin anew with --restart",
        path, refused, could_change ? "go on with the new ones by --change KEY=VALUE, " : ""));
  }
}

// Lays what `checkpoint` holds of changeable() over the configuration `written`. Those of earlier versions hold nothing.
void lay_over(FileSystem& files, const std::string& checkpoint, YamlNode& written) {
  const std::string path = join_path(checkpoint, kChangeableFile);
  if (!files.exists(path)) {
    return;
  }
  for (const YamlNode& section : read_written_yaml(files, path).children) {
    YamlNode* const into = written.find(section.key);
    if (into == nullptr) {
      written.add(section.key, section);
      continue;
    }
    for (const YamlNode& unit : section.children) {
      if (YamlNode* const there = into->find(unit.key); there != nullptr) {
        *there = unit;
      } else {
        into->add(unit.key, unit);
      }
    }
  }
}

// What run.json says; empty where it says nothing.
std::string status_of(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, kRunFile);
  const Json run =
      files.exists(path) ? parse_json(files.read(path, kMostBytes), path) : Json::object();
  const auto found = run.find("status");
  return found != run.end() && found->is_string() ? found->get<std::string>() : "";
}

// A run was here that has no checkpoint: it begins anew where it may have died before its first one.
void look_at_measurements(FileSystem& files, const std::string& directory) {
  const auto rows = read_metrics(files, join_path(directory, kMetricsFile));
  if (rows.empty()) {
    return;
  }
  const int64_t step = rows.back()["step"].get<int64_t>();
  const std::string status = status_of(files, directory);
  if (status == kStatusFinished || status == kStatusInterrupted) {
    throw ConfigError(fmt::format(
        "{}: holds the measurements of a run that was {} at step {}, and its checkpoints are gone; "
        "choose another run.output_dir, or begin anew with --restart",
        directory, status, step));
  }
  log_warning("{}: a run was here that came to step {} and left no checkpoint; it begins anew",
              directory, step);
}

}  // namespace

bool ended_without_its_word(FileSystem& files, const std::string& directory) {
  const std::string status = status_of(files, directory);
  return status == kStatusRunning || status == kStatusFailed;
}

bool PreviousRun::changes_in(std::string_view section) const {
  return std::any_of(changes.begin(), changes.end(),
                     [&](const KeyChange& change) { return change.key.starts_with(section); });
}

Trainer::Data PreviousRun::data() const {
  Trainer::Data out = Trainer::Data::kSame;
  for (const KeyChange& change : changes) {
    if (!change.key.starts_with("data.") || may_change(change.key) == Changing::kFreely) {
      continue;
    }
    if (unit_of(change.key) != "data.valid") {
      return Trainer::Data::kAnew;
    }
    out = Trainer::Data::kOthers;
  }
  return out;
}

void check_no_sweep(FileSystem& files, const std::string& directory) {
  if (files.exists(join_path(directory, kSweepFile))) {
    throw ConfigError(fmt::format("{}: holds a sweep; choose another run.output_dir", directory));
  }
}

YamlNode changeable(const YamlNode& resolved) {
  YamlNode out = YamlNode::map();
  for (const auto& [key, value] : flatten_config(resolved)) {
    const std::string unit = unit_of(key);
    if (may_change(key) == Changing::kOnRequest && find_config(out, unit) == nullptr) {
      set_config(out, unit, *find_config(resolved, unit));
    }
  }
  return out;
}

YamlNode with_defaults(YamlNode written, const std::function<YamlNode(const YamlNode&)>& resolve) {
  try {
    return resolve == nullptr ? written : resolve(written);
  } catch (const Error&) {  // it has keys that are gone, which are changes
    return written;
  }
}

std::optional<YamlNode> previous_config(FileSystem& files, const std::string& directory,
                                        const SessionStart& start, const std::string& checkpoint) {
  const std::string path = join_path(directory, kConfigFile);
  if (!files.exists(path)) {
    return std::nullopt;
  }
  YamlNode written = read_written_yaml(files, path);
  if (!checkpoint.empty()) {
    lay_over(files, checkpoint, written);
  }
  return with_defaults(std::move(written), start.with_defaults);
}

std::optional<PreviousRun> find_previous(FileSystem& files, const std::string& directory,
                                         const std::string& folder, const TrainConfig& config,
                                         const YamlNode& resolved, const SessionStart& start) {
  if (start.restart) {
    return std::nullopt;
  }
  if (folder.empty()) {
    look_at_measurements(files, directory);
    return std::nullopt;
  }
  if (config.checkpoint.resume == Resume::kNever) {
    throw ConfigError(
        fmt::format("checkpoint.resume: never, but {} exists; choose another "
                    "run.output_dir, or say auto to go on",
                    folder));
  }
  std::vector<KeyChange> changes;
  if (const auto before = previous_config(files, directory, start, folder)) {
    changes = changed_keys(*before, resolved);
    if (!changes.empty()) {
      const auto since = changed_keys(*previous_config(files, directory, start), resolved);
      check_changes(join_path(directory, kConfigFile), changes, since, start);
    }
  }
  PreviousRun previous{folder, read_progress(files, folder), std::move(changes)};
  if (previous.progress.seed != static_cast<uint64_t>(config.run.seed)) {
    log_warning("run.seed: the run goes on with seed {}, which it began with",
                previous.progress.seed);
  }
  return previous;
}

void find_previous_in_the_way(FileSystem& files, const TrainConfig& config,
                              const YamlNode& resolved, const SessionStart& start,
                              Findings& findings) {
  const std::string directory = config.run.directory();
  try {
    check_no_sweep(files, directory);
    check(!is_at_work(files, directory),
          "{}: another mstrain is at work here; wait for it or choose another run.output_dir",
          directory);
    const auto newest = start.restart
                            ? std::nullopt
                            : newest_checkpoint(files, join_path(directory, "checkpoints"),
                                                /*set_aside=*/false);
    find_previous(files, directory, newest.value_or(""), config, resolved, start);
  } catch (const Error& error) {
    findings.emplace_back(error.what());
  }
}

}  // namespace mstrain
