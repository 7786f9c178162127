#include "suites/reinforcement/train/muzero_agent.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/ops/build.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "suites/reinforcement/train/clipped_update.h"
#include "suites/reinforcement/train/model_search.h"
#include "suites/reinforcement/train/muzero_plan.h"
#include "suites/reinforcement/train/placed_envs.h"
#include "suites/reinforcement/train/searched_steps.h"

namespace mstrain::reinforcement {
namespace {

constexpr const char* kLatest =
    "latest.";  // before names of the weights that learn, in a checkpoint
constexpr uint64_t kEvaluationSearch = 0x706c6179;  // the seed of searches that nobody learns from
constexpr uint64_t kActingSearch = 0x616374, kRefreshingSearch = 0x72657368;

// The likeliest actions, and what was found of them.
void play(const ModelSearch& search, std::span<const float> observations,
          std::span<const uint8_t> legal, std::span<float> actions, std::span<float> values) {
  const Searched found = search.search(observations, legal, kEvaluationSearch);
  std::ranges::copy(found.best, actions.begin());
  std::ranges::copy(found.values, values.begin());
}

class MuZeroAgent final : public Agent {
 public:
  MuZeroAgent(const Config& config, Communicator* ranks)
      : config_(config),
        algorithm_(muzero_of(config)),
        seed_(static_cast<uint64_t>(config.run.seed)),
        placed_(config, Roles(config, ranks == nullptr ? 1 : ranks->size()), ranks),
        model_(algorithm_, placed_.spec(), config.network),
        optimizer_(config.optimizer, model_.specs()),
        params_(init_params(model_.specs(), seed_)),
        followed_(init_params(model_.specs(), seed_)),
        state_(optimizer_.init(params_)),
        search_(algorithm_, model_, params_),
        again_(algorithm_, model_, followed_),
        playing_(algorithm_, model_, followed_) {
    if (placed_.acts()) {
      steps_.emplace(algorithm_, envs().size(), placed_.spec());
    }
    update_ = jit(
        [this](Params params, OptimizerState state, Params before, const MuZeroBatch& batch,
               const Tensor& lr) {
          return update(std::move(params), std::move(state), before, batch, lr);
        },
        {.donate = {0, 1, 2}, .name = "update"});
  }

  Iteration iterate(double progress) override {
    Iteration out;
    out.env_steps = algorithm_.train_every * config_.environment.num_envs;
    placed_.begin(algorithm_.train_every);
    if (!placed_.acts()) {
      return out;
    }
    for (int64_t step = 0; step < algorithm_.train_every; ++step) {
      act_once();
      out.finished.insert(out.finished.end(), envs().finished().begin(), envs().finished().end());
    }
    if (steps_->size() > 0 && steps_->added() * envs().size() >= algorithm_.learning_starts) {
      search_again();
      learn(progress, out.measures);
    }
    return out;
  }

  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override {
    play(playing_, observations, legal, actions, values);
  }
  std::vector<StoredTensor> model() const override { return stored(followed_); }
  std::vector<StoredTensor> optimizer() const override {
    std::vector<StoredTensor> out = stored(state_);
    for (StoredTensor& each : stored(params_, kLatest)) {
      out.push_back(std::move(each));
    }
    return out;
  }
  std::string save() const override {
    const std::string envs = placed_.save();
    ByteWriter out;
    out.put(updates_);
    if (steps_) {
      steps_->save(out, /*more=*/envs.size() + sizeof(uint64_t));
    }
    out.put_text(envs);
    return out.take();
  }
  void load(std::string_view bytes) override {
    ByteReader in(bytes, algorithm_.type);
    updates_ = in.get<int64_t>();
    if (steps_) {
      steps_->load(in);
    }
    placed_.load(in.get_text());
    in.expect_end();
  }
  const VectorEnv& env() const override { return placed_.env(); }

 private:
  struct Updated {
    Params params;
    OptimizerState state;
    Params followed;
    std::vector<std::pair<std::string, Tensor>> measures;

    template <class V>
    void fields(V& v) {
      v("params", params);
      v("state", state);
      v("followed", followed);
      for (auto& [name, value] : measures) {
        v(name, value);
      }
    }
  };

  Updated update(Params params, OptimizerState state, const Params& before,
                 const MuZeroBatch& batch, const Tensor& lr) const {
    const auto objective = [&](const Params& p) {
      Loss loss = model_.loss(p, batch);
      return std::pair(loss.loss, loss);
    };
    auto [value, gradients] = value_and_grad(objective)(params);
    auto measures = std::move(value.second.measures);
    measures.insert(measures.begin(), {"loss", value.first});
    auto [next, next_state] = clipped_update(optimizer_, std::move(params), std::move(gradients),
                                             std::move(state), lr, measures);
    Params following = followed(before, next, algorithm_.target_rate);
    return {std::move(next), std::move(next_state), std::move(following), std::move(measures)};
  }

  uint64_t search_seed(uint64_t purpose) const {
    return hash_combine(hash_combine(seed_, purpose), static_cast<uint64_t>(steps_->added()));
  }

  void act_once() {
    const std::vector<float> before(envs().observations().begin(), envs().observations().end());
    const std::vector<uint8_t> legal(envs().legal().begin(), envs().legal().end());
    const Searched found = search_.search(before, legal, search_seed(kActingSearch));
    envs().step(found.chosen);
    std::vector<float> last_values(found.values.size());
    if (std::ranges::any_of(envs().truncated(), [](uint8_t flag) { return flag != 0; })) {
      last_values = search_.values(envs().final_observations());
    }
    steps_->add({.observations = before,
                 .legal = legal,
                 .policies = found.policies,
                 .values = found.values,
                 .actions = found.chosen,
                 .rewards = envs().rewards(),
                 .terminated = envs().terminated(),
                 .truncated = envs().truncated(),
                 .last_values = last_values});
  }

  void search_again() {
    const auto old = static_cast<int64_t>(std::llround(
        algorithm_.reanalyse * static_cast<double>(algorithm_.train_every * envs().size())));
    if (old == 0) {
      return;
    }
    const std::vector<int64_t> places =
        steps_->draw_places(old, seed_, static_cast<uint64_t>(steps_->added()));
    const Searched found = again_.search(steps_->observations_at(places), steps_->legal_at(places),
                                         search_seed(kRefreshingSearch));
    steps_->refresh(places, found.policies, found.values);
  }

  void learn(double progress, Measures& measures) {
    const double lr = config_.schedule.lr_at(config_.optimizer.lr, progress);
    for (int64_t i = 0; i < algorithm_.updates; ++i) {
      Updated next =
          update_(std::move(params_), std::move(state_), std::move(followed_),
                  steps_->sample(algorithm_.batch_size, seed_, static_cast<uint64_t>(updates_)),
                  scalar(lr));
      params_ = std::move(next.params);
      state_ = std::move(next.state);
      followed_ = std::move(next.followed);
      ++updates_;
      measures.resize(next.measures.size());
      for (size_t m = 0; m < measures.size(); ++m) {
        measures[m].first = next.measures[m].first;
        measures[m].second +=
            item(next.measures[m].second) / static_cast<double>(algorithm_.updates);
      }
      check(std::isfinite(measures[0].second),
            "{}: update {}: the loss is {}; the run diverged (a lower optimizer.lr may help)",
            algorithm_.type, updates_, measures[0].second);
    }
    measures.emplace_back("lr", lr);
  }

  Environments& envs() { return placed_.acted_on(); }

  const Config& config_;
  const MuZero& algorithm_;
  uint64_t seed_;
  PlacedEnvs placed_;
  MuZeroModel model_;
  Optimizer optimizer_;
  Params params_, followed_;
  OptimizerState state_;
  ModelSearch search_, again_, playing_;  // each with rows of its own number
  std::optional<SearchedSteps> steps_;    // of the rank that acts and learns
  int64_t updates_ = 0;                   // ever: what draws are made by
  std::function<Updated(Params, OptimizerState, Params, const MuZeroBatch&, const Tensor&)> update_;
};

// The policy of a checkpoint, for mstrain play.
class MuZeroPlayer final : public Player {
 public:
  MuZeroPlayer(const Config& config, const std::function<void(std::vector<StoredTensor>)>& load)
      : model_(muzero_of(config), make_env(config.environment.env, 1)->spec(), config.network),
        params_(init_params(model_.specs(), 0)),
        search_(muzero_of(config), model_, params_) {
    load(stored(params_));
  }
  void act(std::span<const float> observations, std::span<const uint8_t> legal,
           std::span<float> actions, std::span<float> values) override {
    play(search_, observations, legal, actions, values);
  }

 private:
  MuZeroModel model_;
  Params params_;
  ModelSearch search_;
};

std::unique_ptr<Agent> make_muzero(const Config& config, const YamlNode& tree, Communicator* ranks,
                                   FileSystem& /*files*/) {
  check_muzero(config, tree, ranks == nullptr ? 1 : ranks->size());
  return std::make_unique<MuZeroAgent>(config, ranks);
}

std::unique_ptr<Player> muzero_player(const Config& config,
                                      const std::function<void(std::vector<StoredTensor>)>& load) {
  return std::make_unique<MuZeroPlayer>(config, load);
}

}  // namespace

std::vector<AgentEntry> muzero_agents() {
  return {{"muzero", [] { return std::unique_ptr<AlgorithmConfig>(std::make_unique<MuZero>()); },
           make_muzero, plan_muzero, muzero_player}};
}

}  // namespace mstrain::reinforcement
