// The folder of a run and what lies where in it.
#pragma once

#include <memory>
#include <string>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain {

class RunDirectory {
 public:
  // Creates the folder where it is missing and takes its lock, which ends with this object or the process; then removes
  // what interrupted writers left. Throws Error where another process holds the lock.
  RunDirectory(FileSystem& files, std::string path);

  FileSystem& files() const { return files_; }
  const std::string& path() const { return path_; }
  std::string at(std::string_view name) const { return join_path(path_, name); }
  std::string checkpoints() const { return at("checkpoints"); }

  // Removes what runs write here, and nothing else. Returns whether there was any.
  bool clear();

 private:
  FileSystem& files_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

// The lock of a run, or a sweep; null where another process holds it, and not merely for the instant in which is_at_work() asks.
std::unique_ptr<FileLock> lock_run(FileSystem& files, const std::string& directory);

// Whether a process holds the lock of the run, or the sweep, in `directory`. True where nobody may ask.
bool is_at_work(FileSystem& files, const std::string& directory);

inline constexpr const char* kLockFile = ".lock";
inline constexpr const char* kConfigFile = "config.yaml";
inline constexpr const char* kRankLogs = "ranks";    // a folder: logs of ranks but the first
inline constexpr const char* kRunFile = "run.json";  // what ran where, and how far it came
inline constexpr const char* kReportFile = "report.html";
inline constexpr const char* kPicturesFile = "pictures.json";  // samples as they enter the model
inline constexpr const char* kFusionFile = "fusion.txt";       // where fusion.explain asks for it

}  // namespace mstrain
