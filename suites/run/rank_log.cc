#include "suites/run/rank_log.h"

#include "core/train/run_directory.h"

namespace mstrain {

std::unique_ptr<LogFile> rank_log(const RunRequest& request, const RunConfig& config,
                                  Communicator& world) {
  const std::string folder = join_path(config.directory(), kRankLogs);
  if (request.start.restart && world.rank() == 0 &&
      !is_at_work(request.files, config.directory())) {
    request.files.remove_all(folder);
  }
  world.barrier("logs of ranks");
  if (world.rank() == 0) {
    return nullptr;
  }
  request.files.create_directories(folder);
  return std::make_unique<LogFile>(request.files,
                                   join_path(folder, fmt::format("rank-{:04}.log", world.rank())));
}

}  // namespace mstrain
