// Logs of the ranks of a run.
#pragma once

#include <memory>

#include "core/train/log_file.h"
#include "suites/run/run.h"

namespace mstrain {

// Ranks but the first say nothing to people: each has a log of its own, in the run's directory, as long as this lives. Of a run that begins
// anew, from when it does: until then the logs of an earlier one stay. Every rank makes one.
class RankLog {
 public:
  // Sets request.start.cleared, which the first one calls as well where it was set.
  RankLog(RunRequest& request, const RunConfig& config, int rank);
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

 private:
  std::unique_ptr<LogFile> log_;
};

}  // namespace mstrain
