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

const OnPolicy& on_policy_of(const Config& config) {
  return dynamic_cast<const OnPolicy&>(*config.algorithm);
}

int64_t size_of(const Communicator* ranks) { return ranks == nullptr ? 1 : ranks->size(); }

bool is_coarse(const Config& config) {
  return config.distribution.policy == Placement::kSingleLearnerCoarse;
}

// A rank: the actor of its part of the environments, and a learner of what they bring (multi_learner), or of what all actors bring
// where it is the first (single_learner_coarse).
class OnPolicyAgent final : public Agent {
 public:
  OnPolicyAgent(const Config& config, Communicator* ranks)
      : ranks_(ranks),
        coarse_(is_coarse(config) && size_of(ranks) > 1),
        algorithm_(on_policy_of(config)),
        envs_(config.environment.env, config.environment.num_envs / size_of(ranks),
              static_cast<uint64_t>(config.run.seed),
              ranks == nullptr ? 0 : ranks->rank() * (config.environment.num_envs / ranks->size())),
        network_(envs_.spec(), config.network),
        learner_(config, algorithm_, network_, coarse_ ? 1 : size_of(ranks),
                 coarse_ ? nullptr : ranks),
        policy_(network_, learner_.params()),
        memory_(static_cast<size_t>(envs_.rows() * network_.memory_size())),
        rollout_(part(1)),
        all_(coarse_ && ranks->rank() == 0 ? part(ranks->size()) : Rollout()) {}

  Iteration iterate(double progress) override {
    collect(envs_, network_, policy_, memory_, rollout_);
    Iteration out;
    out.env_steps = algorithm_.steps * envs_.size() * size_of(ranks_);
    if (coarse_) {
      gather();
      if (ranks_->rank() == 0) {
        out.finished = all_.finished;
        out.measures = learner_.learn(all_, 0, progress);
      }
      learner_.broadcast(*ranks_);
      return out;
    }
    out.finished = rollout_.finished;
    out.measures = learner_.learn(rollout_, envs_.first() * envs_.spec().agents, progress);
    return out;
  }

  void begin(int64_t rows) override { policy_.begin(rows); }
  void act(std::span<const float> observations, std::span<float> actions) override {
    policy_.act(observations, actions);
  }
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override {
    policy_.end(terminated, truncated);
  }
  std::vector<StoredTensor> model() const override { return stored(learner_.params()); }
  std::vector<StoredTensor> optimizer() const override { return stored(learner_.state()); }
  std::string save() const override {
    ByteWriter out;
    learner_.save(out);
    out.put_text(envs_.save());
    if (!memory_.empty()) {
      out.put_all(memory_);
    }
    return out.take();
  }
  void load(std::string_view bytes) override {
    ByteReader in(bytes, algorithm_.type);
    learner_.load(in);
    envs_.load(in.get_text());
    if (!memory_.empty()) {
      memory_ = in.get_all<float>(memory_.size());
    }
    in.expect_end();
  }
  const VectorEnv& env() const override { return envs_.env(); }

 private:
  Rollout part(int64_t ranks) const { return {algorithm_.steps, envs_.rows() * ranks, network_}; }

  // Rollouts of all ranks to the first: one packed message of each.
  void gather() {
    constexpr const char* kWhat = "trajectories";
    std::string bytes = pack(rollout_);
    if (ranks_->rank() != 0) {
      int64_t size = static_cast<int64_t>(bytes.size());
      ranks_->send({&size, 1, Dtype::kI64}, 0, kWhat).wait();
      ranks_->send({bytes.data(), size, Dtype::kU8}, 0, kWhat).wait();
      return;
    }
    std::vector<Rollout> parts{rollout_};
    for (int peer = 1; peer < ranks_->size(); ++peer) {
      int64_t size = 0;
      ranks_->receive({&size, 1, Dtype::kI64}, peer, kWhat).wait();
      bytes.resize(count(size));
      ranks_->receive({bytes.data(), size, Dtype::kU8}, peer, kWhat).wait();
      unpack(bytes, parts.emplace_back(part(1)));
    }
    join(parts, all_);
  }

  Communicator* ranks_;
  bool coarse_;
  const OnPolicy& algorithm_;
  EnvGroup envs_;
  ActorCritic network_;
  OnPolicyLearner learner_;
  PolicyPrograms policy_;
  std::vector<float> memory_;  // of the environments' rows
  Rollout rollout_;
  Rollout all_;  // of the learner of many actors
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
  void begin(int64_t rows) override { policy_.begin(rows); }
  void act(std::span<const float> observations, std::span<float> actions) override {
    policy_.act(observations, actions);
  }
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override {
    policy_.end(terminated, truncated);
  }

 private:
  ActorCritic network_;
  Params params_;
  PolicyPrograms policy_;
};

void check_on_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  const OnPolicy& algorithm = on_policy_of(config);
  if (config.network.memory > 0) {
    const int64_t rows =
        config.environment.num_envs / ranks * make_env(config.environment.env, 1)->spec().agents;
    if (rows % algorithm.minibatches != 0) {
      config_fail(tree, "algorithm.minibatches",
                  fmt::format("with network.memory a minibatch has all steps of some rows: {} do "
                              "not divide the {} rows of a rank",
                              algorithm.minibatches, rows));
    }
  } else if (algorithm.steps % algorithm.minibatches != 0) {
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
  const OnPolicy& algorithm = on_policy_of(config);
  const EnvSpec spec = make_env(config.environment.env, 1)->spec();
  const ActorCritic network(spec, config.network);
  AgentPlan plan = plan_parameters(network.specs(), config.optimizer);
  const int64_t rows = config.environment.num_envs / ranks * spec.agents;
  const Rollout row(algorithm.steps, 1, network);
  int64_t widest = network.observation_size() + network.action_size();
  for (const int64_t width : config.network.hidden) {
    widest += 4 * 2 * width;  // policy and value, forwards and backwards
  }
  widest += 2 * 16 * config.network.memory;  // gates and states of both
  plan.data_bytes = rows * (row.bytes() + 4 * network.memory_size());
  plan.program_bytes =
      plan.model_bytes + algorithm.steps * rows / algorithm.minibatches * widest * 4;
  plan.env_steps = algorithm.steps * config.environment.num_envs;
  plan.updates = algorithm.epochs * algorithm.minibatches;
  const std::string each = ranks == 1 ? "rank 0" : fmt::format("each of ranks 0-{}", ranks - 1);
  const bool coarse = is_coarse(config) && ranks > 1;
  plan.who.push_back(fmt::format("{}: environments ({}), actor{}", each,
                                 config.environment.num_envs / ranks, coarse ? "" : ", learner"));
  if (coarse) {
    plan.who.push_back("rank 0: learner");
    plan.who.push_back("observations, actions (each step): the same memory");
    plan.who.push_back(
        fmt::format("trajectories (each iteration): a packed message of {} bytes from each actor",
                    grouped(plan.data_bytes)));
    plan.who.push_back(fmt::format("parameters (each iteration): one broadcast of {} bytes",
                                   grouped(plan.model_bytes)));
    plan.data_bytes *= 2 * ranks + 1;
    plan.program_bytes = plan.model_bytes + ranks * (plan.program_bytes - plan.model_bytes);
    return plan;
  }
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
AgentEntry on_policy_entry(const char* type) {
  return {type, [] { return std::unique_ptr<AlgorithmConfig>(std::make_unique<Algorithm>()); },
          make_on_policy, plan_on_policy, on_policy_player};
}

}  // namespace

std::vector<AgentEntry> on_policy_agents() {
  return {on_policy_entry<Ppo>("ppo"), on_policy_entry<A2c>("a2c"),
          on_policy_entry<Impala>("impala")};
}

}  // namespace mstrain::reinforcement
