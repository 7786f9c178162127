// Episodes over dynamics: a VectorEnv with resets, the time limit, last observations, checks and saved states.
#pragma once

#include <memory>

#include "suites/reinforcement/env/dynamics.h"

namespace mstrain::reinforcement {

// time_limit: 0 for none.
std::unique_ptr<VectorEnv> make_episodes(std::unique_ptr<Dynamics> dynamics, ResetMode mode,
                                         int64_t time_limit);

// The limit that a configuration asks for.
int64_t time_limit_of(const EnvConfig& config, const EnvSpec& spec);

// An entry of D, whose constructor takes n.
template <class D>
EnvEntry entry_of(const EnvSpec& spec) {
  return {spec, [](const EnvConfig& config, int64_t n) -> std::unique_ptr<VectorEnv> {
            auto dynamics = std::make_unique<D>(n);
            const int64_t limit = time_limit_of(config, dynamics->spec());
            return make_episodes(std::move(dynamics), config.reset, limit);
          }};
}

}  // namespace mstrain::reinforcement
