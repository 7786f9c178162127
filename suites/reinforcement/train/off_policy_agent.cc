#include "suites/reinforcement/train/off_policy_agent.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/reinforcement/algorithms/continuous.h"
#include "suites/reinforcement/algorithms/dqn.h"
#include "suites/reinforcement/algorithms/qmix.h"
#include "suites/reinforcement/train/eight_rows.h"
#include "suites/reinforcement/train/off_policy_learner.h"
#include "suites/reinforcement/train/placed_envs.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kTarget = "target.";  // before names of what follows, in a checkpoint

const OffPolicy& off_policy_of(const Config& config) {
  return dynamic_cast<const OffPolicy&>(*config.algorithm);
}

// Actions as algorithms have them, in place as environments do: [-1, 1] becomes a box's bounds.
void to_bounds(const Space& space, std::span<float> actions) {
  for (size_t i = 0; !space.is_discrete() && i < actions.size(); ++i) {
    const size_t number = i % count(space.size());
    const double middle = 0.5 * (space.low[number] + space.high[number]);
    const double half = 0.5 * (space.high[number] - space.low[number]);
    actions[i] = static_cast<float>(middle + half * static_cast<double>(actions[i]));
  }
}

// The model's programs for acting.
class Programs {
 public:
  // `params` are looked at whenever it acts; all must outlive it.
  Programs(const OffPolicyModel& model, const EnvSpec& env, const Params& params)
      : env_(env), noise_size_(model.noise_size()), params_(params) {
    act_ =
        jit([&model](const Params& p, const Tensor& observation, const Tensor& noise,
                     const Tensor& explore) { return model.act(p, observation, noise, explore); },
            {.name = "act"});
    best_ = jit([&model](const Params& p,
                         const Tensor& observation) { return model.best_action(p, observation); },
                {.name = "best_action"});
  }

  void act(std::span<const float> observations, std::span<const float> noise, double explore,
           std::span<float> actions) {
    by_eights(observations, env_.observation.size(), env_.action.size(), actions,
              [&](const Tensor& observation, int64_t row) {
                return act_(params_, observation, eight_rows(noise, row, noise_size_),
                            scalar(explore));
              });
  }
  void best(std::span<const float> observations, std::span<float> actions) {
    by_eights(observations, env_.observation.size(), env_.action.size(), actions,
              [&](const Tensor& observation, int64_t) { return best_(params_, observation); });
  }

 private:
  EnvSpec env_;
  int64_t noise_size_;
  const Params& params_;
  std::function<Tensor(const Params&, const Tensor&, const Tensor&, const Tensor&)> act_;
  std::function<Tensor(const Params&, const Tensor&)> best_;
};

ReplayShape replay_shape(const Config& config, const EnvSpec& env, bool is_of_teams) {
  const OffPolicy& algorithm = off_policy_of(config);
  const int64_t together = is_of_teams ? env.agents : 1;
  return {.steps = algorithm.buffer_size / config.environment.num_envs,
          .rows = config.environment.num_envs * env.agents / together,
          .observation_size = env.observation.size() * together,
          .action_size = env.action.size() * together,
          .n_step = algorithm.n_step,
          .discount = algorithm.discount,
          .priority_exponent =
              algorithm.prioritised ? std::optional(algorithm.priority_exponent) : std::nullopt};
}

class OffPolicyAgent final : public Agent {
 public:
  OffPolicyAgent(const Config& config, Communicator* ranks)
      : algorithm_(off_policy_of(config)),
        placed_(config, Roles(config, ranks == nullptr ? 1 : ranks->size()), ranks),
        spec_(placed_.spec()),
        environments_(config.environment.num_envs),
        model_(algorithm_.model(spec_, config.network)),
        learner_(config, algorithm_, *model_),
        programs_(*model_, spec_, learner_.params()) {
    if (placed_.acts()) {
      replay_.emplace(replay_shape(config, spec_, model_->is_of_teams()));
    }
  }

  Iteration iterate(double progress) override {
    Iteration out;
    out.env_steps = algorithm_.train_every * environments_;
    placed_.begin(algorithm_.train_every);
    if (!placed_.acts()) {
      return out;
    }
    const double explore = algorithm_.explore_at(progress);
    for (int64_t step = 0; step < algorithm_.train_every; ++step) {
      act_once(explore);
      out.finished.insert(out.finished.end(), envs().finished().begin(), envs().finished().end());
    }
    if (learns()) {
      out.measures = learner_.learn(*replay_, progress);
      if (explore > 0) {
        out.measures.emplace_back("explore", explore);
      }
    }
    return out;
  }

  void act(std::span<const float> observations, std::span<const uint8_t> /*legal*/,
           std::span<float> actions) override {
    programs_.best(observations, actions);
    to_bounds(spec_.action, actions);
  }
  std::vector<StoredTensor> model() const override { return stored(learner_.params()); }
  std::vector<StoredTensor> optimizer() const override {
    std::vector<StoredTensor> out = stored(learner_.state());
    for (StoredTensor& each : stored(learner_.target(), kTarget)) {
      out.push_back(std::move(each));
    }
    return out;
  }
  std::string save() const override {
    const std::string envs = placed_.save();
    ByteWriter out;
    learner_.save(out);
    if (replay_) {
      replay_->save(out, /*more=*/envs.size() + sizeof(uint64_t));
    }
    out.put_text(envs);
    return out.take();
  }
  void load(std::string_view bytes) override {
    ByteReader in(bytes, algorithm_.type);
    learner_.load(in);
    if (replay_) {
      replay_->load(in);
    }
    placed_.load(in.get_text());
    in.expect_end();
  }
  const VectorEnv& env() const override { return placed_.env(); }

 private:
  bool learns() const {
    return envs().steps_taken() * envs().size() >= algorithm_.learning_starts &&
           replay_->size() > 0;
  }

  void act_once(double explore) {
    const Space& space = spec_.action;
    const std::vector<float> before(envs().observations().begin(), envs().observations().end());
    std::vector<float> actions(count(envs().rows() * space.size()));
    if (!learns()) {  // anything
      envs().draw_noise(/*normal=*/false, space.size(), actions, algorithm_.noise_hold);
      for (float& each : actions) {
        each = space.is_discrete() ? std::min(std::floor(each * static_cast<float>(space.n)),
                                              static_cast<float>(space.n - 1))
                                   : 2 * each - 1;
      }
    } else {
      std::vector<float> noise(count(envs().rows() * model_->noise_size()));
      envs().draw_noise(model_->noise_is_normal(), model_->noise_size(), noise,
                        algorithm_.noise_hold);
      programs_.act(before, noise, explore, actions);
    }
    std::vector<float> taken = actions;
    to_bounds(space, taken);
    envs().step(taken);
    std::vector<float> after(envs().observations().begin(), envs().observations().end());
    const size_t width = after.size() / count(envs().size());
    for (size_t env = 0; env < count(envs().size()); ++env) {
      if (envs().terminated()[env] != 0 || envs().truncated()[env] != 0) {
        std::ranges::copy(envs().final_observations().subspan(env * width, width),
                          after.begin() + static_cast<ptrdiff_t>(env * width));
      }
    }
    replay_->add(before, actions, rewards(), envs().terminated(), envs().truncated(), after);
  }

  // Of rows, or of teams, whose agents must earn alike.
  std::vector<float> rewards() const {
    const std::span<const float> all = envs().rewards();
    if (!model_->is_of_teams()) {
      return {all.begin(), all.end()};
    }
    const auto agents = count(spec_.agents);
    std::vector<float> out;
    for (size_t row = 0; row < all.size(); row += agents) {
      out.push_back(all[row]);
      for (size_t agent = 1; agent < agents; ++agent) {
        check(all[row + agent] == all[row],
              "{}: environment {}, step {}: agents earn {} and {}; {} is for teams that earn one "
              "reward together",
              spec_.name, row / agents, envs().steps_taken(), all[row], all[row + agent],
              algorithm_.type);
      }
    }
    return out;
  }

  Environments& envs() { return placed_.acted_on(); }
  const Environments& envs() const { return placed_.acted_on(); }

  const OffPolicy& algorithm_;
  PlacedEnvs placed_;
  const EnvSpec& spec_;
  int64_t environments_;
  std::unique_ptr<OffPolicyModel> model_;
  OffPolicyLearner learner_;
  Programs programs_;
  std::optional<Replay> replay_;  // of the rank that acts and learns
};

// The policy of a checkpoint, for mstrain play.
class OffPolicyPlayer final : public Player {
 public:
  OffPolicyPlayer(const Config& config, const std::function<void(std::vector<StoredTensor>)>& load)
      : env_(make_env(config.environment.env, 1)->spec()),
        model_(off_policy_of(config).model(env_, config.network)),
        params_(init_params(model_->specs(), 0)),
        programs_(*model_, env_, params_) {
    load(stored(params_));
  }
  void act(std::span<const float> observations, std::span<const uint8_t> /*legal*/,
           std::span<float> actions) override {
    programs_.best(observations, actions);
    to_bounds(env_.action, actions);
  }

 private:
  EnvSpec env_;
  std::unique_ptr<OffPolicyModel> model_;
  Params params_;
  Programs programs_;
};

void check_off_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  const OffPolicy& algorithm = off_policy_of(config);
  const Roles roles(config, ranks);
  if (ranks > 1 && !roles.serves()) {
    config_fail(tree, "distribution.policy",
                fmt::format("{} keeps its memory on one rank: expected single, single_learner_fine "
                            "or env_servers",
                            algorithm.type));
  }
  check_hosts(config, tree, roles);
  const int64_t envs = config.environment.num_envs;
  const int64_t least = std::max(envs * algorithm.n_step, algorithm.batch_size);
  if (algorithm.buffer_size < least) {
    config_fail(tree, "algorithm.buffer_size",
                fmt::format("{} steps are fewer than a batch, or than n_step of every environment: "
                            "expected at least {}",
                            algorithm.buffer_size, least));
  }
}

std::unique_ptr<Agent> make_off_policy(const Config& config, const YamlNode& tree,
                                       Communicator* ranks) {
  check_off_policy(config, tree, ranks == nullptr ? 1 : ranks->size());
  return std::make_unique<OffPolicyAgent>(config, ranks);
}

AgentPlan plan_off_policy(const Config& config, const YamlNode& tree, int64_t ranks) {
  check_off_policy(config, tree, ranks);
  const OffPolicy& algorithm = off_policy_of(config);
  const EnvSpec spec = make_env(config.environment.env, 1)->spec();
  const std::unique_ptr<OffPolicyModel> model = algorithm.model(spec, config.network);
  AgentPlan plan = plan_parameters(model->specs(), config.optimizer);
  int64_t widest = 2 * spec.observation.size() + 3 * spec.action.size();
  for (const int64_t width : config.network.hidden) {
    widest += 4 * 3 * 2 * width;  // actor and critics, of steps and of what follows, there and back
  }
  widest *= model->is_of_teams() ? spec.agents : 1;
  const ReplayShape replay = replay_shape(config, spec, model->is_of_teams());
  plan.optimizer_bytes += plan.model_bytes;  // the parameters that follow
  plan.data_bytes =
      replay.bytes() + 2 * replay.saved_bytes();  // a checkpoint is written from copies
  plan.program_bytes = plan.model_bytes + algorithm.batch_size * widest * 4;
  plan.env_steps = algorithm.train_every * config.environment.num_envs;
  plan.updates = algorithm.updates;
  const Roles roles(config, ranks);
  if (roles.serves()) {
    plan.who.push_back(served_hosts(roles));
    plan.who.push_back("rank 0: actor of all environments, memory, learner");
    plan.who.push_back(served_edges(spec, roles));
  } else {
    plan.who.push_back(
        fmt::format("rank 0: environments ({}), actor, memory, learner", roles.each()));
  }
  plan.who.push_back(fmt::format("steps (each step): the same memory, a ring of {} bytes for {}",
                                 grouped(replay.bytes()), grouped(replay.items())));
  plan.who.push_back(fmt::format("the memory (each checkpoint): two copies of {} bytes",
                                 grouped(replay.saved_bytes())));
  plan.who.push_back(fmt::format("batches (each update): {} steps, {}",
                                 grouped(algorithm.batch_size),
                                 algorithm.prioritised ? "by priority" : "drawn alike"));
  return plan;
}

std::unique_ptr<Player> off_policy_player(
    const Config& config, const std::function<void(std::vector<StoredTensor>)>& load) {
  return std::make_unique<OffPolicyPlayer>(config, load);
}

template <class Algorithm>
AgentEntry off_policy_entry(const char* type) {
  return {type, [] { return std::unique_ptr<AlgorithmConfig>(std::make_unique<Algorithm>()); },
          make_off_policy, plan_off_policy, off_policy_player};
}

}  // namespace

std::vector<AgentEntry> off_policy_agents() {
  return {off_policy_entry<Dqn>("dqn"), off_policy_entry<Qmix>("qmix"),
          off_policy_entry<Sac>("sac"), off_policy_entry<Td3>("td3"),
          off_policy_entry<Ddpg>("ddpg")};
}

}  // namespace mstrain::reinforcement
