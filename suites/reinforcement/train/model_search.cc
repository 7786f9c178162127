#include "suites/reinforcement/train/model_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "mcts/search/muzero.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

void copy_all(const Tensor& from, std::span<float> to) {
  const HostRead read(from);
  std::ranges::copy(read.values<float>(), to.begin());
}

// Searches know nothing of runs, and what a network says of them first shows here.
void expect_numbers(std::span<const float> said) {
  for (const float each : said) {
    check(std::isfinite(each),
          "muzero: the network says {}; the run diverged (a lower optimizer.lr may help)", each);
  }
}

using Step = std::function<MuZeroStep(const Params&, const Tensor&, const Tensor&)>;

class LearnedModel final : public mcts::RecurrentEvaluator {
 public:
  LearnedModel(const Step& step, const Params& params, int64_t state_size)
      : step_(step), params_(params), state_size_(state_size) {}
  int64_t hidden_size() const override { return state_size_; }
  void recurrent(int64_t n, std::span<const float> hidden, std::span<const uint32_t> actions,
                 std::span<const float> /*vectors*/, std::span<float> next_hidden,
                 std::span<float> rewards, std::span<float> values, std::span<float> logits,
                 std::span<float> /*sampled*/) override {
    const std::vector<float> taken(actions.begin(), actions.end());
    const MuZeroStep next = step_(
        params_, tensor<float>(std::vector<float>(hidden.begin(), hidden.end()), {n, state_size_}),
        tensor<float>(taken, {n}));
    copy_all(next.state_ns, next_hidden);
    copy_all(next.reward_n, rewards);
    copy_all(next.value_n, values);
    copy_all(next.logits_na, logits);
    for (const auto& said : {rewards, values, logits}) {
      expect_numbers(said);
    }
  }

 private:
  const Step& step_;
  const Params& params_;
  int64_t state_size_;
};

}  // namespace

ModelSearch::ModelSearch(const MuZero& config, const MuZeroModel& model, const Params& params)
    : config_(config), model_(model), params_(params) {
  root_ = jit(
      [&model](const Params& p, const Tensor& observation) { return model.root(p, observation); },
      {.name = "root"});
  step_ = jit([&model](const Params& p, const Tensor& state,
                       const Tensor& action) { return model.step(p, state, action); },
              {.name = "model"});
}

MuZeroStep ModelSearch::root(std::span<const float> observations) const {
  const auto rows = static_cast<int64_t>(observations.size()) / model_.observation_size();
  return root_(params_, tensor<float>(std::vector<float>(observations.begin(), observations.end()),
                                      {rows, model_.observation_size()}));
}

std::vector<float> ModelSearch::values(std::span<const float> observations) const {
  return to_vector<float>(root(observations).value_n);
}

Searched ModelSearch::search(std::span<const float> observations, std::span<const uint8_t> legal,
                             uint64_t seed) const {
  const MuZeroStep now = root(observations);
  const int64_t rows = now.value_n.dim(0);
  const int64_t actions = model_.actions();
  const mcts::MuZeroConfig config{.roots = rows,
                                  .actions = actions,
                                  .simulations = config_.simulations,
                                  .discount = config_.discount,
                                  .gumbel = true,
                                  .gumbel_considered = config_.considered,
                                  .gumbel_spread = config_.spread,
                                  .chance_codes = config_.chance_codes,
                                  .seed = seed};
  mcts::MuZeroSearch search(config);
  std::vector<float> logits = to_vector<float>(now.logits_na);
  const std::vector<float> values = to_vector<float>(now.value_n);
  expect_numbers(logits);
  expect_numbers(values);
  for (size_t i = 0; i < legal.size(); ++i) {
    logits[i] = legal[i] != 0 ? logits[i] : -std::numeric_limits<float>::infinity();
  }
  search.set_roots(logits, values);
  LearnedModel model(step_, params_, config_.state_size);
  mcts::run_muzero(search, config, model, to_vector<float>(now.state_ns));
  Searched out;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<float> policy = search.policy(row);
    out.policies.insert(out.policies.end(), policy.begin(), policy.end());
    out.values.push_back(search.value(row));
    out.chosen.push_back(static_cast<float>(search.best_action(row)));
    out.best.push_back(
        static_cast<float>(std::max_element(policy.begin(), policy.end()) - policy.begin()));
  }
  return out;
}

}  // namespace mstrain::reinforcement
