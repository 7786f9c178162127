// What ranks do under distribution.policy.
#pragma once

#include "suites/reinforcement/train/config.h"

namespace mstrain::reinforcement {

struct Roles {
  Placement policy;
  int64_t ranks;
  int64_t environments;
  bool free;  // async_actors, each at its own pace

  Roles(const Config& config, int64_t ranks)
      : policy(ranks == 1 ? Placement::kSingle : config.distribution.policy),
        ranks(ranks),
        environments(config.environment.num_envs),
        free(policy == Placement::kAsyncActors && config.distribution.max_staleness > 0) {}

  bool coarse() const { return policy == Placement::kSingleLearnerCoarse; }
  // Rank 0 learns from the last iteration's steps while the others take those of the next one; or from what each brings, where they
  // run free.
  bool async() const { return policy == Placement::kAsyncActors; }
  // Rank 0 takes steps by gradients that the others push.
  bool central() const { return policy == Placement::kCentral; }
  // Whole trajectories come to rank 0.
  bool gathers() const { return coarse() || async(); }
  // Rank 0 chooses all actions.
  bool serves() const {
    return policy == Placement::kSingleLearnerFine || policy == Placement::kEnvServers;
  }
  bool learns(int rank) const { return policy == Placement::kMultiLearner || rank == 0; }
  int64_t learners() const { return policy == Placement::kMultiLearner ? ranks : 1; }
  bool first_has_none() const { return policy == Placement::kEnvServers || async() || central(); }
  int64_t hosts() const { return first_has_none() ? ranks - 1 : ranks; }
  // Of a rank that has some.
  int64_t each() const { return environments / hosts(); }
  int64_t first(int rank) const { return (first_has_none() ? rank - 1 : rank) * each(); }
};

// Throws ConfigError, with the line in `tree`, where the environments cannot be dealt out so.
void check_hosts(const Config& config, const YamlNode& tree, const Roles& roles);

}  // namespace mstrain::reinforcement
