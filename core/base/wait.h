// Waiting with a deadline.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace mstrain {

// Waits on `changed` until done(), or until `seconds` have passed in which the process could run: one that was stopped
// (Ctrl-Z, a debugger) finds nothing late when it goes on. Returns done(), which is called with the lock held.
bool wait_with_deadline(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                        double seconds, const std::function<bool()>& done);

}  // namespace mstrain
