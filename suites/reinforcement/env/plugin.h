// Environments of shared libraries that speak the C interface (c_environment.h).
#pragma once

#include <memory>
#include <string>

#include "suites/reinforcement/env/environment.h"

namespace mstrain::reinforcement {

// The environment of the library at `path`. A library stays loaded until the process ends. Throws Error that names the file: it is not
// there, has no mstrain_environment(), is of another version, or says of itself what cannot be. Whatever it writes beyond
// or leaves out of what it announced, and numbers that are not finite, are Errors of the step; where it ends the process by a signal,
// standard error gets the library and the function first.
std::unique_ptr<VectorEnv> make_plugin_env(const std::string& path, const EnvConfig& config,
                                           int64_t n);

}  // namespace mstrain::reinforcement
