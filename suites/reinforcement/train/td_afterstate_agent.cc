#include "suites/reinforcement/train/td_afterstate_agent.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/thread_pool.h"
#include "core/runtime/context.h"
#include "core/train/numbers.h"
#include "core/train/sections.h"
#include "mcts/any_search.h"
#include "suites/reinforcement/algorithms/td_afterstate.h"
#include "suites/reinforcement/train/placed_envs.h"

namespace mstrain::reinforcement {
namespace {

using mcts::AnyGame;

constexpr int64_t kRows = 16;  // positions that a thread takes at a time, where none is searched

const TdAfterstate& algorithm_of(const Config& config) {
  return dynamic_cast<const TdAfterstate&>(*config.algorithm);
}

Params tables(const AfterstateValues& values) { return init_params(values.network().specs(), 0); }

// Moves by the values alone, or by a search with them.
class AfterstatePolicy {
 public:
  AfterstatePolicy(const TdAfterstate& config, AfterstateValues& values)
      : values_(values),
        evaluator_(values),
        config_(config),
        pool_(current_context().num_threads() - 1) {}

  ThreadPool& pool() { return pool_; }

  void act(std::span<const float> observations, std::span<float> actions, std::span<float> values) {
    const size_t size = observations.size() / actions.size();
    for_rows(actions.size(), config_.simulations == 0 ? kRows : 1, [&](size_t row) {
      const AnyGame state = values_.seen(observations.subspan(row * size, size));
      const AfterstateValues::Choice best = values_.best(state);
      values[row] = best.total;
      actions[row] =
          static_cast<float>(config_.simulations == 0 ? best.action : searched(state, best.total));
    });
  }

  template <class F>
  void for_rows(size_t rows, int64_t chunk, F f) {
    pool_.parallel_for(static_cast<int64_t>(rows), chunk, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        f(static_cast<size_t>(row));
      }
    });
  }

 private:
  int64_t searched(const AnyGame& state, float value) {
    const auto search =
        mcts::any_searches().make("puct", config_.search_config(state.hash(), value));
    search->set_root(state);
    const auto action = search->run(evaluator_, mcts::Budget::sims(config_.simulations)).action;
    check(action.has_value(), "algorithm.simulations: {} reach no action", config_.simulations);
    return *action;
  }

  AfterstateValues& values_;
  mcts::AnyEvaluator<AnyGame> evaluator_;
  const TdAfterstate& config_;
  ThreadPool pool_;
};

class TdAfterstateAgent final : public Agent {
 public:
  TdAfterstateAgent(const Config& config, Communicator* ranks)
      : config_(config),
        algorithm_(algorithm_of(config)),
        placed_(config, Roles(config, ranks == nullptr ? 1 : ranks->size()), ranks),
        values_(algorithm_, placed_.spec().name),
        params_(tables(values_)),
        errors_(tables(values_)),
        magnitudes_(tables(values_)),
        policy_(algorithm_, values_) {
    const std::vector<float*> memory = memory_of(params_);
    const std::vector<float*> errors = memory_of(errors_), magnitudes = memory_of(magnitudes_);
    for (size_t t = 0; t < memory.size(); ++t) {
      tables_.push_back({memory[t], errors[t], magnitudes[t]});
    }
    values_.bind(params_);
    if (placed_.acts()) {
      const auto n = static_cast<size_t>(envs().rows());
      after_.resize(n * values_.cells());
      next_.resize(after_.size());
      told_.resize(n);
      best_.resize(n);
      choices_.resize(n);
      wrong_.resize(n);
      entries_.resize(n * values_.network().lookups());
      hits_.assign(values_.network().tables(), TableHits(n * values_.network().symmetries()));
    }
  }

  Iteration iterate(double progress) override {
    Iteration out;
    out.env_steps = algorithm_.train_every * config_.environment.num_envs;
    placed_.begin(algorithm_.train_every);
    if (!placed_.acts()) {
      return out;
    }
    const auto rate = static_cast<float>(config_.schedule.lr_at(algorithm_.step_size, progress));
    Sums sums;
    for (int64_t step = 0; step < algorithm_.train_every; ++step) {
      choose();
      add(sums);
      learn_and_move(rate);
      out.finished.insert(out.finished.end(), envs().finished().begin(), envs().finished().end());
    }
    if (sums.count > 0) {
      check(std::isfinite(sums.squares),
            "{}: the error is {}; the run diverged (a lower algorithm.step_size may help)",
            algorithm_.type, sums.squares);
      const auto count = static_cast<double>(sums.count);
      out.measures = {
          {"loss", sums.squares / count}, {"value", sums.values / count}, {"step_size", rate}};
    }
    return out;
  }

  void act(std::span<const float> observations, std::span<const uint8_t> /*legal*/,
           std::span<float> actions, std::span<float> values) override {
    policy_.act(observations, actions, values);
  }
  std::vector<StoredTensor> model() const override { return stored(params_); }
  std::vector<StoredTensor> optimizer() const override {
    std::vector<StoredTensor> out = stored(errors_, "errors.");
    for (StoredTensor& each : stored(magnitudes_, "magnitudes.")) {
      out.push_back(std::move(each));
    }
    return out;
  }
  std::string save() const override {
    ByteWriter out;
    out.put_all(after_);
    out.put_all(told_);
    out.put_text(placed_.save());
    return out.take();
  }
  void load(std::string_view bytes) override {
    ByteReader in(bytes, algorithm_.type);
    after_ = in.get_all<uint8_t>(after_.size());
    told_ = in.get_all<Told>(told_.size());
    placed_.load(in.get_text());
    in.expect_end();
  }
  const VectorEnv& env() const override { return placed_.env(); }

 private:
  // What the afterstate of a row's last move learns.
  struct Told {
    enum Kind : uint32_t {
      kNothing,
      kNext,
      kValue
    } kind = kNothing;  // kNext: what the best move now comes to
    float value = 0;    // kValue
  };
  struct Sums {
    double squares = 0, values = 0;
    int64_t count = 0;
  };

  Environments& envs() { return placed_.acted_on(); }
  std::span<uint8_t> row_of(std::vector<uint8_t>& cells, size_t row) const {
    return std::span(cells).subspan(row * values_.cells(), values_.cells());
  }

  // The best moves, and how wrong the afterstates of the last ones were.
  void choose() {
    const std::span<const float> seen = envs().observations();
    const size_t size = seen.size() / choices_.size();
    policy_.for_rows(choices_.size(), kRows, [&](size_t row) {
      best_[row] = values_.best(values_.seen(seen.subspan(row * size, size)), row_of(next_, row));
      const Told& told = told_[row];
      if (told.kind == Told::kNothing) {
        return;
      }
      const size_t lookups = values_.network().lookups();
      const std::span<uint32_t> entries(entries_.data() + row * lookups, lookups);
      values_.network().entries(row_of(after_, row), entries);
      const float target = told.kind == Told::kNext ? best_[row].total : told.value;
      wrong_[row] = target - values_.value(entries);
    });
  }

  void add(Sums& sums) const {
    for (size_t row = 0; row < told_.size(); ++row) {
      sums.values += best_[row].total;
      if (told_[row].kind != Told::kNothing) {
        sums.squares += static_cast<double>(wrong_[row]) * wrong_[row];
      }
    }
    sums.count += static_cast<int64_t>(told_.size());
  }

  // The tables learn while the environments step, of which nothing is known before both are done.
  void learn_and_move(float rate) {
    const NTupleNetwork& network = values_.network();
    const float share = rate / static_cast<float>(network.lookups());
    for (size_t row = 0; row < best_.size(); ++row) {
      choices_[row] = static_cast<float>(best_[row].action);
    }
    policy_.pool().parallel_for(1 + static_cast<int64_t>(network.tables()), 1,
                                [&](int64_t begin, int64_t) {
                                  if (begin == 0) {
                                    envs().step(choices_);
                                  } else {
                                    learn(static_cast<size_t>(begin - 1), share);
                                  }
                                });
    std::swap(after_, next_);
    const std::span<const float> last = envs().final_observations();
    const size_t size = last.size() / told_.size();
    for (size_t row = 0; row < told_.size(); ++row) {
      if (envs().terminated()[row] != 0) {
        told_[row] = {Told::kValue, 0};
      } else if (envs().truncated()[row] != 0) {
        const AnyGame state = values_.seen(last.subspan(row * size, size));
        told_[row] = {Told::kValue, values_.best(state).total};
      } else {
        told_[row] = {Told::kNext, 0};
      }
    }
  }

  void learn(size_t table, float rate) {
    const NTupleNetwork& network = values_.network();
    TableHits& hits = hits_[table];
    hits.clear();
    for (size_t row = 0; row < told_.size(); ++row) {
      if (told_[row].kind == Told::kNothing) {
        continue;
      }
      const size_t first = row * network.lookups() + table * network.symmetries();
      for (size_t k = 0; k < network.symmetries(); ++k) {
        hits.add(entries_[first + k], wrong_[row]);
      }
    }
    tables_[table].learn(hits, rate);
  }

  const Config& config_;
  const TdAfterstate& algorithm_;
  PlacedEnvs placed_;
  AfterstateValues values_;
  Params params_, errors_, magnitudes_;
  std::vector<CoherentTable> tables_;
  AfterstatePolicy policy_;
  std::vector<uint8_t> after_, next_;  // [rows, cells]: of the last moves, of those that are chosen
  std::vector<Told> told_;             // [rows]
  std::vector<AfterstateValues::Choice> best_;
  std::vector<float> choices_, wrong_;
  std::vector<uint32_t> entries_;  // [rows, lookups], of `after_`
  std::vector<TableHits> hits_;    // of each table
};

// The policy of a checkpoint, for mstrain play.
class TdAfterstatePlayer final : public Player {
 public:
  TdAfterstatePlayer(const Config& config,
                     const std::function<void(std::vector<StoredTensor>)>& load)
      : values_(algorithm_of(config), config.environment.env.called()),
        params_(tables(values_)),
        policy_(algorithm_of(config), values_) {
    values_.bind(params_);
    load(stored(params_));
  }
  void act(std::span<const float> observations, std::span<const uint8_t> /*legal*/,
           std::span<float> actions, std::span<float> values) override {
    policy_.act(observations, actions, values);
  }

 private:
  AfterstateValues values_;
  Params params_;
  AfterstatePolicy policy_;
};

void check_td_afterstate(const Config& config, const YamlNode& tree, int64_t ranks) {
  const TdAfterstate& algorithm = algorithm_of(config);
  check_one_holder(config, tree, ranks, algorithm.type + " keeps its tables");
  const EnvConfig& env = config.environment.env;
  EnvConfig plain;
  plain.name = env.name;
  plain.library = env.library;
  plain.time_limit = env.time_limit;
  plain.reset = env.reset;
  const auto differs = [&](const auto& before, const auto& now, const std::string& section,
                           const std::string& why) {
    const auto changed = changed_keys(write_config(before), write_config(now));
    if (!changed.empty()) {
      const std::string key = section + "." + changed[0].key;
      config_fail(tree, key, why);
    }
  };
  differs(plain, env, "environment",
          algorithm.type + " reads boards and rewards by the rules of the game; leave it out");
  const Config usual = usual_config(tree);
  differs(usual.network, config.network, "network",
          algorithm.type + " learns tables, of algorithm.tuples; leave it out");
  differs(usual.optimizer, config.optimizer, "optimizer",
          algorithm.type + " has algorithm.step_size; leave it out");
}

AgentPlan plan_td_afterstate(const Config& config, const YamlNode& tree, int64_t ranks) {
  check_td_afterstate(config, tree, ranks);
  const TdAfterstate& algorithm = algorithm_of(config);
  const AfterstateValues values(algorithm, config.environment.env.called());
  AgentPlan plan;
  for (const ParamSpec& spec : values.network().specs()) {
    plan.parameters += spec.type.elements();
    plan.model_bytes += spec.type.bytes();
  }
  plan.optimizer_bytes = 2 * plan.model_bytes;  // of each entry two sums of errors
  const auto lookups = static_cast<int64_t>(values.network().lookups());
  plan.data_bytes =
      config.environment.num_envs * (2 * static_cast<int64_t>(values.cells()) + lookups * (4 + 8));
  plan.env_steps = algorithm.train_every * config.environment.num_envs;
  plan.updates = algorithm.train_every;
  plan.advice = "fewer or shorter algorithm.tuples take less";
  const Roles roles(config, ranks);
  if (roles.serves()) {
    plan.who.push_back(served_hosts(roles));
    plan.who.push_back(served_edges(make_env(config.environment.env, 1)->spec(), roles));
  }
  plan.who.push_back(
      fmt::format("rank 0: {}afterstates, {} tables for {} symmetries of the board",
                  roles.serves() ? "" : fmt::format("environments ({}), ", roles.each()),
                  values.network().tables(), values.network().symmetries()));
  return plan;
}

std::unique_ptr<Agent> make_td_afterstate(const Config& config, const YamlNode& tree,
                                          Communicator* ranks, FileSystem& /*files*/) {
  check_td_afterstate(config, tree, ranks == nullptr ? 1 : ranks->size());
  return std::make_unique<TdAfterstateAgent>(config, ranks);
}

std::unique_ptr<Player> td_afterstate_player(
    const Config& config, const std::function<void(std::vector<StoredTensor>)>& load) {
  return std::make_unique<TdAfterstatePlayer>(config, load);
}

}  // namespace

std::vector<AgentEntry> td_afterstate_agents() {
  return {{"td_afterstate",
           [] { return std::unique_ptr<AlgorithmConfig>(std::make_unique<TdAfterstate>()); },
           make_td_afterstate, plan_td_afterstate, td_afterstate_player}};
}

}  // namespace mstrain::reinforcement
