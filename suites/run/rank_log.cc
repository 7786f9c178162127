#include "suites/run/rank_log.h"

#include "core/train/run_directory.h"

namespace mstrain {

RankLog::RankLog(RunRequest& request, const RunConfig& config, int rank) {
  FileSystem& files = request.files;
  const std::string folder = join_path(config.directory(), kRankLogs);
  const auto open = [this, &files, folder, rank] {
    files.create_directories(folder);
    log_ = std::make_unique<LogFile>(files, join_path(folder, fmt::format("rank-{:04}.log", rank)));
  };
  if (request.start.restart && config.mode == RunMode::kTrain) {
    const auto remove = [&files, folder, before = request.start.cleared] {
      files.remove_all(folder);
      if (before != nullptr) {
        before();
      }
    };
    request.start.cleared = rank == 0 ? std::function<void()>(remove) : open;
  } else if (rank > 0) {
    open();
  }
}

}  // namespace mstrain
