// What the live page asks for: the runs in a folder, and the data of some of them, as JSON. Runs may be written meanwhile.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain::launcher {

class WatchedFolder {
 public:
  // Throws IoError where `folder` is no folder.
  WatchedFolder(FileSystem& files, std::string folder);

  // {"folder", "runs": [{"id", "name", "status", "step", "total_steps", "loss", "eval_loss", "updated", "real", "origin"} or {"id",
  // "name", "error"}]}, those written last first. An id is the run's path below the folder. Thread-safe, as data() is.
  std::string runs();

  // report_data() of the runs with these ids, each with its id; those that cannot be read, and what is no run of the folder,
  // are left out. With the sweep that they are of, where all are of one.
  std::string data(std::span<const std::string> ids);

 private:
  struct Seen {
    std::string state;
    OrderedJson data;   // null where it cannot be read
    std::string error;  // then: why
  };
  std::vector<std::string> find_runs();
  const Seen& seen(const std::string& id);

  FileSystem& files_;
  std::string folder_;
  std::mutex mutex_;
  std::map<std::string, Seen>
      seen_;  // what was read of a run, as long as its files are as they were
};

}  // namespace mstrain::launcher
