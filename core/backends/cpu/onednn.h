// oneDNN primitives as kernels: created once, run on other addresses each time.
#pragma once

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace mstrain::cpu {

// oneDNN's threads are those of OpenMP: creating and running a primitive must see the kernel's thread count.
class TeamSize {
 public:
  explicit TeamSize(int threads) : previous_(omp_get_max_threads()) { set(threads); }
  ~TeamSize() { set(previous_); }
  TeamSize(const TeamSize&) = delete;
  TeamSize& operator=(const TeamSize&) = delete;

 private:
  static void set(int threads) {
    if (threads != omp_get_max_threads()) {
      omp_set_num_threads(threads);
    }
  }
  int previous_;
};

const dnnl::engine& onednn_engine();
// Scratch memory comes from the caller, as the argument DNNL_ARG_SCRATCHPAD.
dnnl::primitive_attr onednn_attributes();

// Throws Error unless a call succeeded.
void onednn_check(dnnl_status_t status);

struct OneDnnArgument {
  int index;
  dnnl::memory::desc desc;
};

// One primitive with its arguments, in the order in which run() takes their addresses; further addresses are ignored.
// Not thread-safe.
class OneDnnCall {
 public:
  OneDnnCall(dnnl::primitive primitive, const std::vector<OneDnnArgument>& arguments, int threads);
  void run(std::initializer_list<void*> addresses);

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  int threads_;
};

}  // namespace mstrain::cpu
