#include "core/train/preflight.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/machine.h"
#include "core/train/numbers.h"

namespace mstrain {
namespace {

// AdamW and its like move every weight by about the rate in each step.
bool moves_by_its_rate(OptimizerType type) {
  return type == OptimizerType::kAdam || type == OptimizerType::kAdamW ||
         type == OptimizerType::kLamb || type == OptimizerType::kMuon;
}

// The innermost that is there.
std::string existing_folder(FileSystem& files, std::string folder) {
  while (!files.exists(folder) && parent_path(folder) != folder) {
    folder = parent_path(folder);
  }
  return folder;
}

}  // namespace

void warn_of(const Findings& findings) {
  for (const std::string& finding : findings) {
    log_warning("{}", finding);
  }
}

void find_oddities(const TrainConfig& config, const YamlNode& tree, Findings& findings) {
  const auto find = [&](const char* key, const std::string& what) {
    findings.push_back(fmt::format("{}: {}", config_where(tree, key), what));
  };
  if (const int processors = this_machine().processors;
      config.run.threads.value_or(1) > processors) {
    find("run.threads",
         fmt::format("{} threads would share {} processor{} and wait for each other; say auto",
                     *config.run.threads.value, processors, processors == 1 ? "" : "s"));
  }
  if (config.schedule.warmup_steps >= config.schedule.total_steps) {
    find("schedule.warmup_steps",
         fmt::format("{} steps of warm-up in a run of {}: it never reaches optimizer.lr",
                     config.schedule.warmup_steps, config.schedule.total_steps));
  }
  constexpr double kLargest = 1;
  if (moves_by_its_rate(config.optimizer.type) && config.optimizer.lr > kLargest) {
    find("optimizer.lr",
         fmt::format("{} moves every weight by about as much in each step", config.optimizer.lr));
  }
  if (!config.checkpoint.interval.is_word() &&
      config.checkpoint.minutes != CheckpointConfig().minutes) {
    find("checkpoint.minutes", "counts only where checkpoint.interval is auto");
  }
}

void find_unused_split(bool has_valid, double split, double usual, const YamlNode& tree,
                       Findings& findings) {
  if (has_valid && split != usual && split != 1) {
    findings.push_back(fmt::format(
        "{}: counts only where data.valid is null: all of data.train is trained on; leave it out",
        config_where(tree, "data.split")));
  }
}

void find_unwritable_output(FileSystem& files, const TrainConfig& config, const YamlNode& tree,
                            Findings& findings) {
  const std::string existing = existing_folder(files, config.run.directory());
  const auto find = [&](const std::string& what) {
    findings.push_back(fmt::format("{}: {}", config_where(tree, "run.output_dir"), what));
  };
  if (!files.is_directory(existing)) {
    find(fmt::format("{} is no folder", existing));
    return;
  }
  const std::string trial = temporary_name(join_path(existing, "trial"));
  try {
    files.create_directories(trial);
    files.remove_all(trial);
  } catch (const IoError& error) {
    find(fmt::format("{} could not be written: {}", config.run.directory(), error.what()));
  }
}

void find_full_disk(FileSystem& files, const std::string& folder, int64_t bytes,
                    const std::string& where, std::string_view what, Findings& findings) {
  const std::string existing = existing_folder(files, folder);
  const auto free = static_cast<int64_t>(files.free_space(existing));
  if (bytes > free) {
    findings.push_back(fmt::format("{}: {} may take {} on disk, and {} has {} left", where, what,
                                   gigabytes(bytes), existing, gigabytes(free)));
  }
}

}  // namespace mstrain
