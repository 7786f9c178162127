// An environment on given states and actions, file to file: the way to check a port.
#pragma once

#include <string>

#include "core/base/files.h"
#include "suites/reinforcement/env/environment.h"

namespace mstrain::reinforcement {

struct RolloutRequest {
  EnvConfig environment;  // reset mode and wrappers are not looked at
  std::string input;  // safetensors: state f64 [n, S]; actions i64 [t, n], of a box f64 [t, n, D]
  std::string
      output;  // observations f32 [t, n, O], rewards f32 [t, n], terminated and truncated u8 [t, n]
};

// Without resets: after its end an environment repeats its last row. With several agents [t, n, A, …]. Throws Error that names the
// file and the tensor with what was found and expected, or the environment and the step.
void rollout(FileSystem& files, const RolloutRequest& request);

}  // namespace mstrain::reinforcement
