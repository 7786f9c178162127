#include "core/train/run_directory.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/io/events.h"
#include "core/io/folder.h"
#include "core/train/find_lr.h"
#include "core/train/layer_log.h"
#include "core/train/log_file.h"
#include "core/train/metrics_csv.h"
#include "core/train/metrics_file.h"
#include "core/train/profile.h"
#include "core/train/report_data.h"

namespace mstrain {
namespace {

constexpr std::string_view kOwnFiles[] = {
    kConfigFile,  kRunFile, kReportFile, kFusionFile, kMetricsTable, kMetricsFile,
    kProfileFile, kLogFile, kFindLrFile, kLayersFile, kPicturesFile, kEvaluationsFile};

}  // namespace

RunDirectory::RunDirectory(FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)) {
  files_.create_directories(checkpoints());
  lock_ = lock_run(files_, path_);
  if (lock_ == nullptr) {
    fail("{}: another mstrain is at work here; wait for it or choose another run.output_dir",
         path_);
  }
  clean_folders(files_, path_);
  for (const std::string& name : clean_folders(files_, checkpoints())) {
    log_debug("{}: {} was left by an interrupted save", checkpoints(), name);
  }
}

std::unique_ptr<FileLock> lock_run(FileSystem& files, const std::string& directory) {
  constexpr int kTries = 20;
  std::unique_ptr<FileLock> lock;
  for (int i = 0; i < kTries && lock == nullptr; ++i) {
    if (i > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    lock = files.try_lock(join_path(directory, kLockFile));
  }
  return lock;
}

bool is_at_work(FileSystem& files, const std::string& directory) {
  const std::string lock = join_path(directory, kLockFile);
  try {
    return files.exists(lock) && files.try_lock(lock) == nullptr;
  } catch (const IoError&) {
    return true;
  }
}

bool RunDirectory::clear() {
  bool any = !files_.list(checkpoints()).empty();
  files_.remove_all(checkpoints());
  files_.create_directories(checkpoints());
  for (const std::string& name : files_.list(path_)) {
    const bool is_ours =
        name.starts_with(kEventsPrefix) ||
        std::find(std::begin(kOwnFiles), std::end(kOwnFiles), name) != std::end(kOwnFiles);
    if (is_ours) {
      files_.remove(at(name));
      any = true;
    }
  }
  return any;
}

}  // namespace mstrain
