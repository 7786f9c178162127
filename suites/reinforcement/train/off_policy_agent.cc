#include "suites/reinforcement/train/off_policy_agent.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "suites/reinforcement/algorithms/continuous.h"
#include "suites/reinforcement/algorithms/dqn.h"
#include "suites/reinforcement/algorithms/qmix.h"
#include "suites/reinforcement/train/off_policy_learner.h"
#include "suites/reinforcement/train/off_policy_programs.h"
#include "suites/reinforcement/train/off_policy_roles.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/rollout.h"
#include "suites/reinforcement/train/steps_on_disk.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kReplayFolder = "replay";  // of the run's directory: a folder of each holder
constexpr const char* kTarget = "target.";       // before names of what follows, in a checkpoint

std::unique_ptr<StepStore> step_store(const Config& config, const ReplayShape& shape,
                                      FileSystem& files) {
  if (off_policy_of(config).buffer_on == BufferOn::kMemory) {
    return std::make_unique<StepsInMemory>(shape.store());
  }
  return std::make_unique<StepsOnDisk>(shape.store(), files,
                                       join_path(join_path(config.run.directory(), kReplayFolder),
                                                 fmt::format("{:04}", shape.holder)));
}

// A rank that acts keeps the steps of its environments and learns from those of all; others step environments for it.
class OffPolicyAgent final : public Agent {
 public:
  OffPolicyAgent(const Config& config, Communicator* ranks, FileSystem& files)
      : algorithm_(off_policy_of(config)),
        roles_(config, ranks == nullptr ? 1 : ranks->size()),
        placed_(config, roles_, ranks),
        spec_(placed_.spec()),
        environments_(config.environment.num_envs),
        model_(algorithm_.model(spec_, config.network)),
        learner_(config, algorithm_, *model_, roles_.learners() > 1 ? ranks : nullptr),
        programs_(*model_, spec_, learner_.params()) {
    if (placed_.acts()) {
      ReplayShape shape = replay_shape(config, spec_, *model_, roles_.learners());
      shape.holder = roles_.learners() > 1 ? ranks->rank() : 0;
      replay_.emplace(shape, step_store(config, shape, files));
      memory_.resize(count(envs().rows() * model_->memory_size()));
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

  void begin(int64_t rows) override { programs_.begin(rows); }
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override {
    programs_.act(observations, legal, actions, values);
  }
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override {
    programs_.end(terminated, truncated);
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
      replay_->save(out, /*more=*/envs.size() + (memory_.size() + 2) * sizeof(uint64_t));
    }
    out.put_all(memory_);
    out.put_text(envs);
    return out.take();
  }
  void load(std::string_view bytes) override {
    ByteReader in(bytes, algorithm_.type);
    learner_.load(in);
    if (replay_) {
      replay_->load(in);
    }
    memory_ = in.get_all<float>(memory_.size());
    placed_.load(in.get_text());
    in.expect_end();
  }
  void release(int64_t oldest_env_steps) override {
    if (replay_) {
      replay_->release(oldest_env_steps / environments_);
    }
  }
  const VectorEnv& env() const override { return placed_.env(); }

 private:
  bool learns() const {
    return envs().steps_taken() * environments_ >= algorithm_.learning_starts &&
           replay_->size() > 0;
  }

  void act_once(double explore) {
    const Space& space = spec_.action;
    const std::vector<float> before(envs().observations().begin(), envs().observations().end());
    std::vector<float> actions(count(envs().rows() * space.size()));
    const std::vector<float> remembered = memory_;
    if (!learns() && memory_.empty()) {  // anything
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
      programs_.explore(before, noise, learns() ? explore : 1, memory_, actions);
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
    replay_->add(before, actions, rewards(), envs().terminated(), envs().truncated(), after,
                 remembered);
    forget(envs().terminated(), envs().truncated(), memory_);
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
              spec_.name, (static_cast<size_t>(placed_.first_row()) + row) / agents,
              envs().steps_taken(), all[row], all[row + agent], algorithm_.type);
      }
    }
    return out;
  }

  Environments& envs() { return placed_.acted_on(); }
  const Environments& envs() const { return placed_.acted_on(); }

  const OffPolicy& algorithm_;
  Roles roles_;
  PlacedEnvs placed_;
  const EnvSpec& spec_;
  int64_t environments_;
  std::unique_ptr<OffPolicyModel> model_;
  OffPolicyLearner learner_;
  OffPolicyPrograms programs_;
  std::optional<Replay> replay_;  // of a rank that acts
  std::vector<float> memory_;     // of the rows that it acts on
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
  void begin(int64_t rows) override { programs_.begin(rows); }
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override {
    programs_.act(observations, legal, actions, values);
  }
  void end(std::span<const uint8_t> terminated, std::span<const uint8_t> truncated) override {
    programs_.end(terminated, truncated);
  }

 private:
  EnvSpec env_;
  std::unique_ptr<OffPolicyModel> model_;
  Params params_;
  OffPolicyPrograms programs_;
};

std::unique_ptr<Agent> make_off_policy(const Config& config, const YamlNode& tree,
                                       Communicator* ranks, FileSystem& files) {
  check_off_policy(config, tree, ranks == nullptr ? 1 : ranks->size());
  return std::make_unique<OffPolicyAgent>(config, ranks, files);
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
