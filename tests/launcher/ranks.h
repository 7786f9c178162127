// What tests of processes that share a run have in common.
#pragma once

#include <gtest/gtest.h>

#include "tests/launcher/job.h"

namespace mstrain {

inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// What mpirun by itself makes of it, without its own words about statuses.
inline CommandResult run_under_mpirun(int ranks, const std::vector<std::string>& arguments) {
  const Environment plm("OMPI_MCA_plm", "isolated");
  const Environment pml("OMPI_MCA_pml", "ob1");
  const Environment btl("OMPI_MCA_btl", "self,vader");
  std::vector<std::string> all{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
                               std::to_string(ranks), MSTRAIN_COMMAND};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunningCommand(all, "mpirun").wait();
}

class ManyProcesses : public testing::Test {
  const Environment leaks_{"ASAN_OPTIONS", "detect_leaks=0"};  // those of MPI itself
};

}  // namespace mstrain
