#include "suites/reinforcement/train/on_policy_agent.h"

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/reinforcement/algorithms/a2c.h"
#include "suites/reinforcement/algorithms/impala.h"
#include "suites/reinforcement/algorithms/ppo.h"
#include "suites/reinforcement/train/on_policy_learner.h"
#include "suites/reinforcement/train/policy_programs.h"

namespace mstrain::reinforcement {
namespace {

const OnPolicy& algorithm_of(const Config& config) {
  return dynamic_cast<const OnPolicy&>(*config.algorithm);
}

// Actor and learner of the same environments, on one rank.
class OnPolicyAgent final : public Agent {
 public:
  OnPolicyAgent(const Config& config, Communicator* ranks)
      : learners_(ranks == nullptr ? 1 : ranks->size()),
        algorithm_(algorithm_of(config)),
        envs_(config.environment.env, config.environment.num_envs / learners_,
              static_cast<uint64_t>(config.run.seed),
              ranks == nullptr ? 0 : ranks->rank() * (config.environment.num_envs / learners_)),
        network_(envs_.spec(), config.network),
        learner_(config, algorithm_, network_, learners_, ranks),
        policy_(network_, learner_.params()),
        rollout_(algorithm_.steps, envs_.rows(), network_.observation_size(),
                 network_.action_size()) {}

  Iteration iterate(double progress) override {
    collect(envs_, network_, policy_, rollout_);
    Iteration out;
    out.env_steps = algorithm_.steps * envs_.size() * learners_;
    out.finished = rollout_.finished;
    out.measures = learner_.learn(rollout_, envs_.first() * envs_.spec().agents, progress);
    return out;
  }

  void act(std::span<const float> observations, std::span<float> actions) override {
    policy_.act(observations, actions);
  }
  std::vector<StoredTensor> model() const override { return stored(learner_.params()); }
  std::vector<StoredTensor> optimizer() const override { return stored(learner_.state()); }
  std::string save() const override {
    ByteWriter out;
    learner_.save(out);
    out.put_text(envs_.save());
    return out.take();
  }
  void load(std::string_view bytes) override {
    ByteReader in(bytes, algorithm_.type);
    learner_.load(in);
    envs_.load(in.get_text());
    in.expect_end();
  }
  const VectorEnv& env() const override { return envs_.env(); }

 private:
  int64_t learners_;
  const OnPolicy& algorithm_;
  EnvGroup envs_;
  ActorCritic network_;
  OnPolicyLearner learner_;
  PolicyPrograms policy_;
  Rollout rollout_;
};

// The policy of a checkpoint, for evaluations and mstrain play.
class OnPolicyPlayer final : public Player {
 public:
  OnPolicyPlayer(const Config& config, const std::function<void(std::vector<StoredTensor>)>& load)
      : network_(make_env(config.environment.env, 1)->spec(), config.network),
        params_(init_params(network_.specs(), 0)),
        policy_(network_, params_) {
    load(stored(params_));
  }
  void act(std::span<const float> observations, std::span<float> actions) override {
    policy_.act(observations, actions);
  }

 private:
  ActorCritic network_;
  Params params_;
  PolicyPrograms policy_;
};

void check_on_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  const OnPolicy& algorithm = algorithm_of(config);
  if (algorithm.steps % algorithm.minibatches != 0) {
    config_fail(
        tree, "algorithm.minibatches",
        fmt::format("{} do not divide algorithm.steps {}", algorithm.minibatches, algorithm.steps));
  }
  if (config.environment.num_envs % ranks != 0) {
    config_fail(tree, "environment.num_envs",
                fmt::format("{} environments cannot be shared equally by {} ranks",
                            config.environment.num_envs, ranks));
  }
}

std::unique_ptr<Agent> make_on_policy(const Config& config, const YamlNode& tree,
                                      Communicator* ranks) {
  check_on_policy(config, tree, ranks == nullptr ? 1 : ranks->size());
  return std::make_unique<OnPolicyAgent>(config, ranks);
}

AgentPlan plan_on_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  check_on_policy(config, tree, ranks);
  const OnPolicy& algorithm = algorithm_of(config);
  const EnvSpec spec = make_env(config.environment.env, 1)->spec();
  const ActorCritic network(spec, config.network);
  AgentPlan plan;
  for (const ParamSpec& param : network.specs()) {
    plan.parameters += param.type.elements();
    plan.model_bytes += param.type.bytes();
  }
  const auto slots =
      static_cast<int64_t>(Optimizer(config.optimizer, network.specs()).slot_names().size());
  const int64_t rows = config.environment.num_envs / ranks * spec.agents;
  const Rollout one(1, 1, network.observation_size(), network.action_size());
  int64_t widest = network.observation_size() + network.action_size();
  for (const int64_t width : config.network.hidden) {
    widest += 4 * 2 * width;  // policy and value, forwards and backwards
  }
  plan.optimizer_bytes = slots * plan.model_bytes;
  plan.data_bytes = algorithm.steps * rows * one.bytes();
  plan.program_bytes =
      plan.model_bytes + algorithm.steps * rows / algorithm.minibatches * widest * 4;
  plan.env_steps = algorithm.steps * config.environment.num_envs;
  plan.updates = algorithm.epochs * algorithm.minibatches;
  const std::string each = ranks == 1 ? "rank 0" : fmt::format("each of ranks 0-{}", ranks - 1);
  plan.who.push_back(fmt::format("{}: environments ({}), actor, learner", each,
                                 config.environment.num_envs / ranks));
  plan.who.push_back("observations, actions (each step): the same memory");
  plan.who.push_back(fmt::format("trajectories (each iteration): the same memory, {} bytes",
                                 grouped(plan.data_bytes)));
  plan.who.push_back("parameters (each update): the same memory");
  if (ranks > 1) {
    plan.who.push_back(fmt::format(
        "gradients (each minibatch): all_reduce of {} bytes, {} an iteration; advantages: "
        "all_reduce of {} bytes, {} an iteration",
        grouped(plan.model_bytes), plan.updates, 16 * algorithm.minibatches, algorithm.epochs));
  }
  return plan;
}

std::unique_ptr<Player> on_policy_player(
    const Config& config, const std::function<void(std::vector<StoredTensor>)>& load) {
  return std::make_unique<OnPolicyPlayer>(config, load);
}

template <class Algorithm>
AgentEntry entry(const char* type) {
  return {type, [] { return std::unique_ptr<AlgorithmConfig>(std::make_unique<Algorithm>()); },
          make_on_policy, plan_on_policy, on_policy_player};
}

}  // namespace

std::vector<AgentEntry> on_policy_agents() {
  return {entry<Ppo>("ppo"), entry<A2c>("a2c"), entry<Impala>("impala")};
}

}  // namespace mstrain::reinforcement
