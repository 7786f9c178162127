// A run of reinforcement learning from its configuration to its end, in its directory: begins or goes on, trains, evaluates, saves,
// reports.
#pragma once

#include "suites/reinforcement/train/agent.h"
#include "suites/run/run.h"

namespace mstrain::reinforcement {

inline constexpr const char* kPlayedFile =
    "reinforcement.yaml";  // of a checkpoint: the run's configuration
inline constexpr const char* kEnvironmentsFile =
    "environments.bin";  // VectorEnv::save() of the first rank

struct Finished {
  Outcome outcome = Outcome::kFinished;
  int64_t env_steps = 0;
  std::optional<double> eval_return;  // this session's last
  bool stopped_at_return = false;
};

// Every rank calls it with the same arguments; the first one writes the directory. Throws ConfigError for keys that a run which
// goes on must not change, PlanError where the plan does not fit, IoError, and Error naming environment and step. Whatever it throws, the newest
// checkpoint is intact.
// `until`: so many steps, and the evaluation that is due then, after which it stops like one that is interrupted.
Finished train_agent(const RunRequest& request, const Config& config, std::shared_ptr<Ranks> ranks,
                     std::optional<int64_t> until = {});

}  // namespace mstrain::reinforcement
