// mstrain report: the page of runs that are there.
#include "core/train/report.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/train/find_lr.h"
#include "core/train/report_data.h"
#include "core/train/run_directory.h"
#include "core/train/run_record.h"
#include "core/train/sweep.h"
#include "launcher/commands.h"

namespace mstrain::launcher {
namespace {

// The runs that a folder stands for: itself, all of a sweep, which is told as well, or, where nothing but the rate finder ran in
// it, what that wrote, whose folder takes the place of `directory`.
void take_runs(FileSystem& files, std::string& directory, std::vector<std::string>& runs,
               OrderedJson& sweep) {
  if (const std::string path = join_path(directory, kSweepFile);
      !is_run_directory(files, directory) && files.exists(path)) {
    constexpr uint64_t kMostBytes = 16 << 20;
    Json told = parse_json(files.read(path, kMostBytes), path);
    tell_whether_stopped(files, directory, told);
    for (const Json& run : told.value("runs", Json::array())) {
      const std::string of_run =
          join_path(join_path(directory, kSweepRuns), run.value("id", std::string()));
      if (is_run_directory(files, of_run)) {
        runs.push_back(of_run);
      }
    }
    sweep = OrderedJson(told);
    return;
  }
  if (const std::string found = join_path(directory, kFindLrFolder);
      !is_run_directory(files, directory) && is_run_directory(files, found)) {
    directory = found;
  }
  runs.push_back(directory);
}

}  // namespace

int report(const Usage& usage, Arguments arguments, const std::atomic<bool>&) {
  std::optional<std::string> output;
  const std::vector<Option> options{
      text_option("--output", "FILE", output,
                  "default: report.html, of one run in its folder, of several here")};
  auto directories = parse_arguments(usage, arguments, options);
  if (!directories) {
    return kDone;
  }
  if (directories->empty()) {
    throw ConfigError("report: expected RUN_DIR...");
  }
  std::vector<std::string> runs;
  OrderedJson sweep;
  for (std::string& directory : *directories) {
    take_runs(real_files(), directory, runs, sweep);
  }
  const bool is_one = directories->size() == 1;
  const std::string path = output   ? *output
                           : is_one ? join_path(directories->front(), kReportFile)
                                    : std::string(kReportFile);
  write_file_atomic(real_files(), path,
                    report_html(real_files(), runs, is_one ? sweep : OrderedJson()));
  fmt::print("{}\n", path);
  return kDone;
}

}  // namespace mstrain::launcher
