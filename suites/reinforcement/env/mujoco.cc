#include "suites/reinforcement/env/mujoco.h"

#include "core/base/error.h"
#include "suites/reinforcement/env/episodes.h"
#include "suites/reinforcement/env/mujoco_physics.h"
#include "suites/reinforcement/env/mujoco_tasks.h"

namespace mstrain::reinforcement {
namespace {

// states_: of each environment all that its future depends on; one physics steps them in turn.
class MujocoDynamics final : public Dynamics {
 public:
  MujocoDynamics(const MujocoTask& task, const std::string& model, int64_t n)
      : task_(task), spec_(task.spec()), physics_(make_mujoco_physics(task, model)) {
    states_.resize(static_cast<size_t>(n),
                   std::vector<double>(static_cast<size_t>(physics_->whole_state_size())));
    seen_.resize(states_.size(), std::vector<double>(static_cast<size_t>(task.observation_size())));
    places_.resize(states_.size());
  }

  const EnvSpec& spec() const override { return spec_; }
  int64_t size() const override { return std::ssize(states_); }

  void begin(int64_t i, EpisodeClock& clock) override {
    EnvRandom random = clock.random(i);
    std::vector<double> state = physics_->first_state();
    for (size_t k = 0; k < state.size(); ++k) {
      const bool is_velocity = k >= static_cast<size_t>(task_.positions);
      state[k] += is_velocity && task_.has_normal_velocities
                      ? task_.noise * random.normal()
                      : random.uniform(-task_.noise, task_.noise);
    }
    set_state(i, state.data());
  }

  void step(const Actions& actions, const uint8_t* still, EpisodeClock&, float* rewards,
            uint8_t* terminated) override {
    for (int64_t i = 0; i < size(); ++i) {
      if (still != nullptr && still[i] != 0) {
        continue;
      }
      physics_->load(states_[at(i)]);
      physics_->step({actions.box + i * task_.actions, at(task_.actions)});
      const double before = places_[at(i)];
      keep(i);
      const MujocoView now = physics_->view();
      const double speed = (places_[at(i)] - before) / physics_->seconds();
      rewards[i] = static_cast<float>(reward_of(task_, now, speed));
      terminated[i] = is_healthy(task_, now) ? 0 : 1;
    }
  }

  void observe(float* out) const override {
    for (int64_t i = 0; i < size(); ++i) {
      observe_one(i, out + i * task_.observation_size());
    }
  }
  void observe_one(int64_t i, float* out) const override {
    std::ranges::transform(seen_[at(i)], out, [](double x) { return static_cast<float>(x); });
  }
  void get_state(int64_t i, double* out) const override {
    physics_->load(states_[at(i)]);
    const MujocoView now = physics_->view();
    std::ranges::copy(now.velocities, std::ranges::copy(now.positions, out).out);
  }
  void set_state(int64_t i, const double* state) override {
    physics_->begin({state, at(spec_.state_size)});
    keep(i);
  }
  // What was seen and where it was are of the last moment before a step's end, and no function of the state.
  void save(ByteWriter& out) const override {
    for (size_t i = 0; i < states_.size(); ++i) {
      out.put_all(states_[i]);
      out.put_all(seen_[i]);
    }
    out.put_all(places_);
  }
  void load(ByteReader& in) override {
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i] = in.get_all<double>(states_[i].size());
      seen_[i] = in.get_all<double>(seen_[i].size());
    }
    places_ = in.get_all<double>(places_.size());
  }
  Image picture(int64_t i) const override {
    physics_->load(states_[at(i)]);
    return physics_->picture();
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  void keep(int64_t i) {
    physics_->save(states_[at(i)]);
    reinforcement::observe(task_, physics_->view(), seen_[at(i)]);
    places_[at(i)] = physics_->place();
  }

  const MujocoTask& task_;
  EnvSpec spec_;
  std::unique_ptr<MujocoPhysics> physics_;
  std::vector<std::vector<double>> states_, seen_;
  std::vector<double> places_;  // along x
};

std::unique_ptr<VectorEnv> make_mujoco(const EnvConfig& config, int64_t n) {
  for (const MujocoTask& task : mujoco_tasks()) {
    if (config.name == task.name) {
      if (const std::string missing = mujoco_missing(); !missing.empty()) {
        throw ConfigError(fmt::format("environment \"{}\": {}", task.name, missing));
      }
      if (!config.models) {
        throw ConfigError(
            fmt::format("environment.models: {} reads {} from there; expected the folder that has "
                        "it, as envs/mujoco/assets of Gymnasium",
                        task.name, task.model));
      }
      auto dynamics =
          std::make_unique<MujocoDynamics>(task, join_path(*config.models, task.model), n);
      const int64_t limit = time_limit_of(config, dynamics->spec());
      return make_episodes(std::move(dynamics), config.reset, limit);
    }
  }
  fail("{}: is no task of MuJoCo", config.called());
}

}  // namespace

void add_mujoco_environments() {
  for (const MujocoTask& task : mujoco_tasks()) {
    add_environment({task.spec(), make_mujoco, mujoco_missing, true});
  }
}

}  // namespace mstrain::reinforcement
