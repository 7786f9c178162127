// What `mstrain` can be asked to do.
#pragma once

#include <atomic>
#include <span>
#include <string>

namespace mstrain::launcher {

// Runs the command line without the program's name. Results go to standard output. Returns the exit status: 0 done, 130
// interrupted. Throws ConfigError for bad usage or a bad configuration, PlanError where a plan does not fit, Error else.
int run_command_line(std::span<const std::string> arguments, const std::atomic<bool>& stop);

}  // namespace mstrain::launcher
