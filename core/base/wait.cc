#include "core/base/wait.h"

#include <algorithm>
#include <chrono>

namespace mstrain {
namespace {

constexpr double kSlice = 0.25;  // seconds

}  // namespace

bool wait_with_deadline(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                        double seconds, const std::function<bool()>& done) {
  using Clock = std::chrono::steady_clock;
  double waited = 0;
  while (!done()) {
    if (waited >= seconds) {
      return false;
    }
    const double slice = std::min(kSlice, seconds - waited);
    const auto begin = Clock::now();
    changed.wait_for(lock, std::chrono::duration<double>(slice));
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    waited += std::min(passed, 2 * slice);  // more: it did not run
  }
  return true;
}

}  // namespace mstrain
