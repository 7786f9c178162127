// The processes of a job as the system sees them: where each runs, and of those on this machine, whether they still do.
#pragma once

#include <sched.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mstrain {

// What a process says of itself to the others.
struct ProcessPlace {
  char host[64]{};
  char boot[40]{};         // of the machine's start
  uint64_t processes = 0;  // the space in which pid is a number
  int64_t pid = 0;
  cpu_set_t processors{};  // on which it may run

  bool sees(const ProcessPlace& other) const;
};
ProcessPlace this_place();

// Whether a process of this machine was stopped by a signal; false where there is none.
bool is_stopped(int64_t pid);

class MpiPeers {
 public:
  MpiPeers(std::vector<ProcessPlace> places, int rank);
  ~MpiPeers();
  MpiPeers(const MpiPeers&) = delete;
  MpiPeers& operator=(const MpiPeers&) = delete;

  // Ranks of this machine whose processes have ended.
  std::vector<int> dead() const;
  // Whether the process is one of this machine that was stopped by a signal.
  bool is_stopped(int rank) const;
  // Whether the processes of this machine are more than the processors that they have together.
  bool take_turns() const;
  // "rank 3 (pid 71 on gpu-07)"
  std::string describe(int rank) const;

 private:
  std::vector<ProcessPlace> places_;
  int rank_;
  std::map<int, int> watched_;  // rank: descriptor of the process; -1: it had ended before
};

// "rank 3", "ranks 0-2, 5"; they ascend.
std::string describe_ranks(const std::vector<int>& ranks);

}  // namespace mstrain
