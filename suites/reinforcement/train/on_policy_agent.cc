#include "suites/reinforcement/train/on_policy_agent.h"

#include "suites/reinforcement/algorithms/a2c.h"
#include "suites/reinforcement/algorithms/impala.h"
#include "suites/reinforcement/algorithms/ppo.h"
#include "suites/reinforcement/train/free_actors.h"
#include "suites/reinforcement/train/messages.h"
#include "suites/reinforcement/train/on_policy_learner.h"
#include "suites/reinforcement/train/on_policy_roles.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/policy_programs.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kMeasures = "measures";

int64_t size_of(const Communicator* ranks) { return ranks == nullptr ? 1 : ranks->size(); }

// A rank: the actor of its part of the environments, and a learner of what they bring (multi_learner), or of what all actors bring
// where it is the first (single_learner_coarse); or the first one is the actor of all, and the others step their part as it says
// (single_learner_fine; env_servers, where the first has no part). The learner of async_actors has no part either, nor has the server
// of central, which takes steps by gradients of the others.
class OnPolicyAgent final : public Agent {
 public:
  OnPolicyAgent(const Config& config, Communicator* ranks)
      : ranks_(ranks),
        roles_(config, size_of(ranks)),
        algorithm_(on_policy_of(config)),
        envs_(config, roles_, ranks),
        network_(envs_.spec(), config.network),
        learner_(config, algorithm_, network_, roles_.learners(),
                 roles_.learners() > 1 ? ranks : nullptr),
        policy_(network_, learner_.params()) {
    if (envs_.acts()) {
      memory_.resize(static_cast<size_t>(envs_.acted_on().rows() * network_.memory_size()));
      rollout_ = {algorithm_.steps, envs_.acted_on().rows(), network_};
    }
    if (roles_.central() && envs_.is_first()) {
      server_.emplace(*ranks_, config.distribution.max_staleness);
    } else if (roles_.central()) {
      served_.emplace(*ranks_, config.distribution.max_staleness);
    }
    if (roles_.free && envs_.is_first()) {
      free_learner_.emplace(*ranks_, part(), config.distribution.max_staleness,
                            config.distribution.timeout_s);
    } else if (roles_.free) {
      free_actor_.emplace(*ranks_);
    } else if (envs_.is_first() && roles_.gathers()) {
      all_ = {algorithm_.steps, roles_.environments * envs_.spec().agents, network_};
    }
  }

  Iteration iterate(double progress) override {
    Iteration out;
    out.env_steps = algorithm_.steps * roles_.environments;
    envs_.begin(algorithm_.steps);
    if (server_) {
      return serve(std::move(out), progress);
    }
    if (free_learner_) {
      return learn_next(progress);
    }
    if (free_actor_) {
      while (free_actor_->may_act(learner_.served_params())) {
        collect(envs_.acted_on(), network_, policy_, memory_, rollout_);
        free_actor_->bring(rollout_);
      }
      out.env_steps = free_actor_->env_steps();
      return out;
    }
    if (!envs_.acts()) {
      return roles_.async() ? learn_behind(std::move(out), progress) : out;
    }
    collect(envs_.acted_on(), network_, policy_, memory_, rollout_);
    if (served_) {
      push(learner_.learn(rollout_, envs_.first_row(), progress, &*served_));
      return out;
    }
    if (roles_.gathers()) {
      gather();
    }
    if (roles_.learns(ranks_ == nullptr ? 0 : ranks_->rank())) {
      Rollout& learnt = roles_.coarse() ? all_ : rollout_;
      out.finished = learnt.finished;
      out.measures = learner_.learn(learnt, envs_.first_row(), progress);
    }
    if (roles_.gathers()) {
      learner_.broadcast(*ranks_);
    }
    return out;
  }

  void begin(int64_t rows) override { policy_.begin(rows); }
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override {
    policy_.act(observations, legal, actions, values);
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
    if (waits_) {
      out.put_text(pack(all_));
    }
    if (free_learner_) {
      free_learner_->save(out);
    }
    if (server_) {
      server_->save(out);
    }
    if (served_) {
      served_->save(out);
      out.put_all(flat_of(learner_.params()));
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
    if (free_learner_) {
      free_learner_->load(in);
    } else if (roles_.async() && envs_.is_first()) {
      unpack(in.get_text(), all_);
      waits_ = true;
    }
    if (server_) {
      server_->load(in);
    }
    if (served_) {
      served_->load(in);
      const size_t size = flat_of(learner_.params()).size();
      from_flat(in.get_all<float>(size), learner_.served_params());
    }
    in.expect_end();
  }
  const VectorEnv& env() const override { return envs_.env(); }
  bool runs_free() const override { return roles_.free; }
  void call_in(int64_t env_steps) override { free_learner_->call_in(env_steps); }

 private:
  // Of this rank, or of any other.
  Rollout part() const { return {algorithm_.steps, roles_.each() * envs_.spec().agents, network_}; }
  // What the actors bring is learnt from in the next iteration, by when they have taken further steps with the parameters of this one.
  Iteration learn_behind(Iteration out, double progress) {
    if (waits_) {
      out.measures = learner_.learn(all_, 0, progress);
      out.measures.emplace_back("staleness", 1.0);
    }
    gather();
    waits_ = true;
    out.finished = all_.finished;
    learner_.broadcast(*ranks_);
    return out;
  }

  // From one actor's rollout.
  Iteration learn_next(double progress) {
    FreeLearner::Next next = free_learner_->next(learner_.params());
    Iteration out;
    out.env_steps = (1 + next.dropped) * algorithm_.steps * roles_.each();
    out.finished = std::move(next.finished);
    const int64_t first_row = roles_.first(next.actor) * envs_.spec().agents;
    out.measures = learner_.learn(next.rollout, first_row, progress);
    free_learner_->learned();
    out.measures.emplace_back("staleness", static_cast<double>(next.staleness));
    out.measures.emplace_back("dropped", static_cast<double>(next.dropped));
    out.measures.emplace_back("waited_seconds", next.waited);
    return out;
  }

  // Of a central learner, when its iteration is over: measures, then episodes that ended.
  void push(const Measures& measures) {
    ByteWriter out;
    out.put<uint64_t>(measures.size());
    for (const auto& [name, value] : measures) {
      out.put_text(name);
      out.put(value);
    }
    out.put<uint64_t>(rollout_.finished.size());
    out.put_all(rollout_.finished);
    send_text(*ranks_, out.take(), 0, kMeasures);
    served_->settle(learner_.params());
  }
  // Of the server: the rounds of an iteration, and then what the learners measured, in the mean.
  Iteration serve(Iteration out, double progress) {
    const int64_t rounds = algorithm_.epochs * algorithm_.minibatches;
    double norms = 0;
    for (int64_t round = 0; round < rounds; ++round) {
      norms += learner_.serve(*server_, progress);
    }
    const int learners = ranks_->size() - 1;
    for (int peer = 1; peer <= learners; ++peer) {
      const std::string bytes = receive_text(*ranks_, peer, kMeasures);
      ByteReader in(bytes, "measures of another rank");
      out.measures.resize(in.get<uint64_t>());
      for (auto& [name, sum] : out.measures) {
        name = in.get_text();
        sum += in.get<double>() / learners;
      }
      const auto finished = in.get_all<Episode>(in.get<uint64_t>());
      out.finished.insert(out.finished.end(), finished.begin(), finished.end());
    }
    server_->settle();
    out.measures.emplace_back("grad_norm", norms / static_cast<double>(rounds));
    out.measures.emplace_back("staleness", static_cast<double>(server_->take_staleness()));
    return out;
  }

  // Rollouts of all ranks to the first: one packed message of each.
  void gather() {
    constexpr const char* kWhat = "trajectories";
    if (ranks_->rank() != 0) {
      send_text(*ranks_, pack(rollout_), 0, kWhat);
      return;
    }
    std::vector<Rollout> parts;
    if (envs_.acts()) {
      parts.push_back(rollout_);
    }
    for (int peer = 1; peer < ranks_->size(); ++peer) {
      unpack(receive_text(*ranks_, peer, kWhat), parts.emplace_back(part()));
    }
    join(parts, all_);
  }

  Communicator* ranks_;
  Roles roles_;
  const OnPolicy& algorithm_;
  PlacedEnvs envs_;
  ActorCritic network_;
  OnPolicyLearner learner_;
  PolicyPrograms policy_;
  std::vector<float> memory_;  // of the rows that it acts on
  Rollout rollout_;
  Rollout all_;                              // of the learner of many actors
  bool waits_ = false;                       // async_actors: all_ is to be learnt from
  std::optional<CentralServer> server_;      // central: of the first rank
  std::optional<CentralLearner> served_;     // of the others
  std::optional<FreeLearner> free_learner_;  // async_actors with a bound: of the first rank
  std::optional<FreeActor> free_actor_;      // of the others
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
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override {
    policy_.act(observations, legal, actions, values);
  }
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override {
    policy_.end(terminated, truncated);
  }

 private:
  ActorCritic network_;
  Params params_;
  PolicyPrograms policy_;
};

std::unique_ptr<Agent> make_on_policy(const Config& config, const YamlNode& tree,
                                      Communicator* ranks, FileSystem& /*files*/) {
  check_on_policy(config, tree, ranks == nullptr ? 1 : ranks->size());
  return std::make_unique<OnPolicyAgent>(config, ranks);
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
