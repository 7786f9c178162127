#include "suites/reinforcement/env/plugin.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/crash_notice.h"
#include "core/base/error.h"
#include "core/base/filled.h"
#include "core/base/shared_library.h"
#include "suites/reinforcement/env/c_environment.h"
#include "suites/reinforcement/env/episodes.h"
#include "suites/reinforcement/env/one_environment.h"

namespace mstrain::reinforcement {
namespace {

using Api = mstrain_environment_api;

constexpr int64_t kMostNumbers = 1 << 24;

std::vector<double> bounds(const double* given, int64_t size, double otherwise) {
  return given == nullptr ? std::vector<double>(static_cast<size_t>(size), otherwise)
                          : std::vector<double>(given, given + size);
}

void check_bounds(const std::string& path, const char* what, const Space& box) {
  for (size_t k = 0; k < box.low.size(); ++k) {
    check(box.low[k] <= box.high[k], "{}: bounds of {} {} are {} … {}", path, what, k, box.low[k],
          box.high[k]);
  }
}

EnvSpec spec_of(const std::string& path, const Api& api) {
  const auto size_of = [&](const char* what, int64_t found, int64_t least) {
    check(found >= least && found <= kMostNumbers, "{}: {} is {}: expected {} … {}", path, what,
          found, least, kMostNumbers);
    return found;
  };
  check(api.name != nullptr && api.name[0] != '\0', "{}: it gives no name", path);
  EnvSpec spec;
  spec.name = api.name;
  spec.about = api.about == nullptr ? "from " + path : api.about;
  const int64_t seen = size_of("observation_size", api.observation_size, 1);
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  spec.observation = Space::box(bounds(api.observation_low, seen, -kUnbounded),
                                bounds(api.observation_high, seen, kUnbounded));
  check_bounds(path, "observation", spec.observation);
  if (size_of("discrete_actions", api.discrete_actions, 0) > 0) {
    check(api.box_actions == 0, "{}: {} discrete actions and {} of a box: expected one of both",
          path, api.discrete_actions, api.box_actions);
    spec.action = Space::discrete(api.discrete_actions);
  } else {
    const int64_t taken = size_of("box_actions", api.box_actions, 1);
    check(api.action_low != nullptr && api.action_high != nullptr,
          "{}: actions of a box need action_low and action_high", path);
    spec.action = Space::box(bounds(api.action_low, taken, 0), bounds(api.action_high, taken, 0));
    check_bounds(path, "action", spec.action);
  }
  spec.state_size = size_of("state_size", api.state_size, 1);
  check(api.time_limit >= 0 && api.time_limit <= std::numeric_limits<int32_t>::max(),
        "{}: a time limit of {} steps", path, api.time_limit);
  spec.time_limit = api.time_limit;
  spec.reward_threshold = api.reward_threshold;
  return spec;
}

const Api& load_api(const std::string& path) {
  const auto entry = reinterpret_cast<decltype(&mstrain_environment)>(
      function_of_library(path, "mstrain_environment", "an environment in C"));
  const CrashNotice notice(path.c_str(), "mstrain_environment");
  const Api* api = entry();
  check(api != nullptr, "{}: mstrain_environment() gave NULL", path);
  check(api->version == MSTRAIN_ENVIRONMENT_VERSION && api->size == sizeof(Api),
        "{}: made for version {} of the interface ({} bytes): expected version {} ({} bytes); "
        "compile "
        "it again with this mstrain's c_environment.h",
        path, api->version, api->size, MSTRAIN_ENVIRONMENT_VERSION, sizeof(Api));
  const std::pair<const char*, void*> functions[] = {
      {"create", reinterpret_cast<void*>(api->create)},
      {"destroy", reinterpret_cast<void*>(api->destroy)},
      {"begin", reinterpret_cast<void*>(api->begin)},
      {"step", reinterpret_cast<void*>(api->step)},
      {"observe", reinterpret_cast<void*>(api->observe)},
      {"get_state", reinterpret_cast<void*>(api->get_state)},
      {"set_state", reinterpret_cast<void*>(api->set_state)}};
  for (const auto& [name, function] : functions) {
    check(function != nullptr, "{}: its function {} is NULL", path, name);
  }
  return *api;
}

struct Stream {
  mstrain_random random;
  EnvRandom numbers;

  explicit Stream(const EnvRandom& from) : random{uniform, this}, numbers(from) {}
  static double uniform(mstrain_random* self) {
    return static_cast<Stream*>(self->reserved)->numbers.uniform();
  }
};

class PluginDynamics final : public Dynamics {
  void* at(int64_t i) const { return all_[static_cast<size_t>(i)]; }
  template <class F>
  auto call(const char* function, const F& f) const {
    const CrashNotice notice(path_.c_str(), function);
    return f();
  }

 public:
  PluginDynamics(const std::string& path, const Api& api, int64_t n)
      : path_(path),
        api_(api),
        spec_(spec_of(path, api)),
        seen_(static_cast<size_t>(spec_.observation.size())),
        state_(static_cast<size_t>(spec_.state_size)) {
    for (int64_t i = 0; i < n; ++i) {
      void* env = call("create", [&] { return api_.create(); });
      check(env != nullptr, "{}: create() failed", path_);
      all_.push_back(env);
    }
  }
  ~PluginDynamics() override {
    for (void* env : all_) {
      const CrashNotice notice(path_.c_str(), "destroy");
      api_.destroy(env);
    }
  }

  const EnvSpec& spec() const override { return spec_; }
  int64_t size() const override { return static_cast<int64_t>(all_.size()); }

  void begin(int64_t i, EpisodeClock& clock) override {
    Stream stream(clock.random(i));
    expect_success(i, "begin", call("begin", [&] { return api_.begin(at(i), &stream.random); }));
  }

  void step(const Actions& actions, const uint8_t* still, EpisodeClock& clock, float* rewards,
            uint8_t* terminated) override {
    const int64_t taken = spec_.action.size();
    for (int64_t i = 0; i < size(); ++i) {
      if (still != nullptr && still[i] != 0) {
        continue;
      }
      Stream stream(clock.random(i));
      double reward = std::numeric_limits<double>::quiet_NaN();
      uint8_t ended = 0;
      const int status = call("step", [&] {
        return api_.step(at(i), actions.discrete == nullptr ? nullptr : actions.discrete + i,
                         actions.box == nullptr ? nullptr : actions.box + i * taken, &stream.random,
                         &reward, &ended);
      });
      expect_success(i, "step", status);
      rewards[i] = static_cast<float>(reward);
      terminated[i] = ended != 0 ? 1 : 0;
    }
  }

  void observe(float* out) const override {
    for (int64_t i = 0; i < size(); ++i) {
      observe_one(i, out + i * spec_.observation.size());
    }
  }
  void observe_one(int64_t i, float* out) const override {
    call("observe", [&] {
      api_.observe(at(i), seen_.begin());
      return 0;
    });
    check(!seen_.is_overrun(),
          "{}: {}: observe() wrote more than the {} numbers of its observation", path_, spec_.name,
          seen_.size());
    std::copy_n(seen_.data(), seen_.size(), out);
  }
  void get_state(int64_t i, double* out) const override {
    call("get_state", [&] {
      api_.get_state(at(i), state_.begin());
      return 0;
    });
    check(!state_.is_overrun(), "{}: {}: get_state() wrote more than the {} numbers of its state",
          path_, spec_.name, state_.size());
    std::copy_n(state_.data(), state_.size(), out);
    for (size_t k = 0; k < state_.size(); ++k) {
      check(std::isfinite(out[k]), "{}: {}: number {} of the state of environment {} is {}", path_,
            spec_.name, k, i, out[k]);
    }
  }
  void set_state(int64_t i, const double* state) override {
    expect_success(i, "set_state", call("set_state", [&] { return api_.set_state(at(i), state); }));
  }
  Image picture(int64_t i) const override {
    std::vector<float> seen(seen_.size());
    observe_one(i, seen.data());
    return bars(spec_, seen);
  }

 private:
  void expect_success(int64_t i, const char* function, int status) const {
    if (status != 0) {
      const char* said = api_.last_error == nullptr
                             ? nullptr
                             : call("last_error", [&] { return api_.last_error(at(i)); });
      const bool is_said = said != nullptr && said[0] != '\0';
      fail("{}: {}() of environment {} failed: {}", path_, function, i,
           is_said ? said : fmt::format("status {}", status));
    }
  }

  std::string path_;
  const Api& api_;
  EnvSpec spec_;
  mutable Filled<float> seen_;
  mutable Filled<double> state_;
  std::vector<void*> all_;
};

}  // namespace

std::unique_ptr<VectorEnv> make_plugin_env(const std::string& path, const EnvConfig& config,
                                           int64_t n) {
  auto dynamics = std::make_unique<PluginDynamics>(path, load_api(path), n);
  const std::string name = config.name.value_or("");
  check(name.empty() || name == dynamics->spec().name,
        "{}: its environment is {}, not {} as environment.name says; leave that out, or null", path,
        dynamics->spec().name, name);
  const int64_t limit = time_limit_of(config, dynamics->spec());
  return make_episodes(std::move(dynamics), config.reset, limit);
}

}  // namespace mstrain::reinforcement
