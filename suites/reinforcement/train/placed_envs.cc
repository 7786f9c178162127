#include "suites/reinforcement/train/placed_envs.h"

#include "core/base/error.h"
#include "core/train/numbers.h"

namespace mstrain::reinforcement {

void check_hosts(const Config& config, const YamlNode& tree, const Roles& roles) {
  if (config.environment.num_envs % roles.hosts() != 0) {
    config_fail(tree, "environment.num_envs",
                fmt::format("{} environments cannot be shared equally by {} ranks",
                            config.environment.num_envs, roles.hosts()));
  }
  const EnvConfig& env = config.environment.env;
  if (roles.first_has_none() && (env.normalize_observations || env.normalize_rewards)) {
    config_fail(tree, "distribution.policy",
                fmt::format("{} leaves rank 0, which evaluates, without the statistics that "
                            "environments are normalised by; expected single_learner_{}",
                            kPlacements[static_cast<size_t>(roles.policy)],
                            roles.serves() ? "fine" : "coarse"));
  }
}

void check_one_holder(const Config& config, const YamlNode& tree, int64_t ranks,
                      const std::string& keeps) {
  const Roles roles(config, ranks);
  if (ranks > 1 && !roles.serves()) {
    config_fail(
        tree, "distribution.policy",
        fmt::format("{} on one rank: expected single, single_learner_fine or env_servers", keeps));
  }
  check_hosts(config, tree, roles);
}

PlacedEnvs::PlacedEnvs(const Config& config, const Roles& roles, Communicator* ranks)
    : roles_(roles), ranks_(ranks), plain_(make_env(config.environment.env, 1)) {
  const auto seed = static_cast<uint64_t>(config.run.seed);
  plain_->reset(seed, 0);
  if (!(is_first() && roles.first_has_none())) {
    own_.emplace(config.environment.env, roles.each(), seed,
                 roles.first(ranks == nullptr ? 0 : ranks->rank()));
  }
  if (is_first() && roles.serves()) {
    joint_.emplace(spec(), own_ ? &*own_ : nullptr, roles.each(), seed, *ranks);
  }
}

void PlacedEnvs::begin(int64_t steps) {
  if (joint_) {
    joint_->begin();
  } else if (roles_.serves()) {
    serve(*own_, steps, *ranks_);
  }
}

void PlacedEnvs::load(std::string_view bytes) {
  if (own_) {
    own_->load(bytes);
  }
}

std::string served_hosts(const Roles& roles) {
  const std::string who =
      roles.ranks == 1
          ? "rank 0"
          : fmt::format("each of ranks {}-{}", roles.first_has_none() ? 1 : 0, roles.ranks - 1);
  return fmt::format("{}: environments ({})", who, roles.each());
}

std::string served_edges(const EnvSpec& spec, const Roles& roles) {
  return fmt::format(
      "actions (each step): a message of {} bytes to each other rank; observations, {}rewards, "
      "ends: one of {} bytes from it",
      grouped(roles.each() * spec.agents * spec.action.size() * 4),
      spec.masks ? "legal actions, " : "", grouped(step_message_bytes(spec, roles.each())));
}

}  // namespace mstrain::reinforcement
