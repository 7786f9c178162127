// Ranks that --ranks has started and that do not meet the others. Those that wait for them there, in MPI, hear of nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <span>
#include <string>

#include "launcher/rank_link.h"

namespace mstrain::launcher {

class AbsentRanks {
 public:
  // Of so many ranks, which were given `link` as the value of kLinkVariable. Who is stopped, or brings none nearer to the others,
  // has `timeout_s` seconds.
  AbsentRanks(std::string link, int ranks, double timeout_s);

  // To be called until all have joined; looks twice a second. Which ranks are at fault and why, for people; nothing while none
  // is known to be.
  const std::string& look(std::span<const StartedRank> came);
  // Those among them that have not come, where they still are.
  const std::map<int, pid_t>& processes() const { return present_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string link_;
  int ranks_;
  std::chrono::duration<double> stopped_may_take_, start_may_take_;
  std::map<int, pid_t> present_, seen_;  // by rank: that have not come; that were ever there
  std::map<int, int> missed_;            // by rank: how often it was looked for since it was there
  size_t joined_ = 0, came_ = 0;
  Clock::time_point looked_, changed_ = Clock::now();
  std::string fault_;
};

}  // namespace mstrain::launcher
