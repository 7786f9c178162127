#include "launcher/watched_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "core/train/find_lr.h"
#include "core/train/lineage.h"
#include "core/train/log_file.h"
#include "core/train/metrics_file.h"
#include "core/train/report_data.h"
#include "core/train/run_directory.h"
#include "core/train/sweep.h"

namespace mstrain::launcher {
namespace {

constexpr int kDeepest = 6;  // folders in folders
constexpr uint64_t kMostBytes = 64 << 20;

// The state of the files that a run's page is made of, without their contents, and whether somebody writes them.
std::string state_of(FileSystem& files, const std::string& directory) {
  std::string out;
  for (const char* name : {kMetricsFile, kRunFile, kConfigFile, kLogFile, kFindLrFile}) {
    const std::filesystem::path path = join_path(directory, name);
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    const auto time = std::filesystem::last_write_time(path, error);
    out += error ? "-;" : fmt::format("{},{};", size, time.time_since_epoch().count());
  }
  return out + (is_at_work(files, directory) ? "at work" : "");
}

OrderedJson last_number(const OrderedJson& values) {
  for (size_t i = values.size(); i-- > 0;) {
    if (values[i].is_number()) {
      return values[i];
    }
  }
  return nullptr;
}

OrderedJson entry_of(const std::string& id, const OrderedJson& data) {
  const OrderedJson& run = data["run"];
  const OrderedJson& train = data["train"];
  const auto fact = [&](const char* key) {
    const auto found = run.find(key);
    return found == run.end() ? OrderedJson() : *found;
  };
  OrderedJson step = last_number(train["step"]);
  return {{"id", id},
          {"name", data["name"]},
          {"status", fact("status")},
          {"step", step.is_null() ? fact("step") : std::move(step)},
          {"total_steps", fact("total_steps")},
          {"loss", last_number(train["loss"])},
          {"eval_loss", last_number(data["eval"][0]["eval_loss"])},
          {"updated", fact("updated")},
          {"real", data["real"]},
          {"origin", data["origin"]}};
}

}  // namespace

WatchedFolder::WatchedFolder(FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {
  check_exists(files_, folder_);
  if (!files_.is_directory(folder_)) {
    throw IoError(fmt::format("{}: is no folder", folder_));
  }
}

std::vector<std::string> WatchedFolder::find_runs() {
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> found;
  std::set<std::string> been;  // links may lead to where they stand
  const auto look = [&](const auto& self, const std::string& id, int depth) -> void {
    const std::string directory = id.empty() ? folder_ : join_path(folder_, id);
    std::vector<std::string> names;
    try {
      if (!files_.is_directory(directory) || !been.insert(real_path(directory)).second) {
        return;
      }
      if (is_run_directory(files_, directory)) {
        std::error_code error;
        const auto time =
            std::filesystem::last_write_time(join_path(directory, kMetricsFile), error);
        found.emplace_back(error ? std::filesystem::file_time_type::min() : time,
                           id.empty() ? "." : id);
      }
      names = files_.list(directory);
    } catch (const IoError&) {
      return;  // gone, not ours to read, or a link that leads to itself
    }
    for (const std::string& name : names) {
      if (depth < kDeepest && !name.starts_with('.') && name != "checkpoints") {
        self(self, id.empty() ? name : join_path(id, name), depth + 1);
      }
    }
  };
  look(look, "", 0);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::string> ids;
  for (auto& [time, id] : found) {
    ids.push_back(std::move(id));
  }
  return ids;
}

const WatchedFolder::Seen& WatchedFolder::seen(const std::string& id) {
  const std::string directory = id == "." ? folder_ : join_path(folder_, id);
  std::string state = state_of(files_, directory);
  Seen& seen = seen_[id];
  if (seen.state == state) {
    return seen;
  }
  seen = {std::move(state), nullptr, ""};
  try {
    seen.data = run_data(files_, directory);
    seen.data["id"] = id;
  } catch (const std::exception& error) {  // damaged files, or of another program: shown at the run
    seen.error = error.what();
  }
  return seen;
}

std::string WatchedFolder::runs() {
  const std::lock_guard lock(mutex_);
  OrderedJson list = OrderedJson::array();
  for (const std::string& id : find_runs()) {
    const Seen& run = seen(id);
    list.push_back(run.error.empty() ? entry_of(id, run.data)
                                     : OrderedJson{{"id", id}, {"name", id}, {"error", run.error}});
  }
  return print_lossy({{"folder", folder_}, {"runs", std::move(list)}});
}

std::string WatchedFolder::data(std::span<const std::string> ids) {
  const std::lock_guard lock(mutex_);
  const std::vector<std::string> known = find_runs();
  OrderedJson runs = OrderedJson::array();
  std::string sweep;  // above every run
  bool one_sweep = true;
  for (const std::string& id : ids) {
    if (std::find(known.begin(), known.end(), id) == known.end()) {
      continue;
    }
    const Seen& run = seen(id);
    if (!run.error.empty()) {
      continue;
    }
    runs.push_back(run.data);
    const std::string above = parent_path(parent_path(join_path(folder_, id)));
    one_sweep = one_sweep && (sweep.empty() || sweep == above);
    sweep = above;
  }
  OrderedJson out{{"runs", std::move(runs)}, {"sweep", nullptr}};
  if (one_sweep && !sweep.empty()) {
    try {
      if (const std::string path = join_path(sweep, kSweepFile); files_.exists(path)) {
        out["sweep"] = OrderedJson(parse_json(files_.read(path, kMostBytes), path));
      }
    } catch (const IoError&) {
      out["sweep"] = nullptr;  // the runs are shown without it
    }
  }
  return print_lossy(out);
}

}  // namespace mstrain::launcher
