// From text to token ids.
#pragma once

#include <atomic>
#include <span>
#include <string>

namespace mstrain::launcher {

// `mstrain tokenize` without its name. Returns the exit status; throws as run_command_line does.
int tokenize(std::span<const std::string> arguments, const std::atomic<bool>& stop);

}  // namespace mstrain::launcher
