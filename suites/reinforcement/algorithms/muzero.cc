#include "suites/reinforcement/algorithms/muzero.h"

#include "core/base/error.h"
#include "core/ops/arrange.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "core/ops/softmax.h"
#include "core/ops/statistics.h"
#include "suites/reinforcement/algorithms/networks.h"

namespace mstrain::reinforcement {
namespace {

constexpr double kLinear = 0.001;     // of the scale h, which this keeps invertible
constexpr double kSmallHeads = 0.01;  // gain of last layers: policies and values begin undecided
constexpr double kSmallRange = 1e-5;

Tensor scaled_down(const Tensor& x) { return sign(x) * (sqrt(abs(x) + 1) - 1) + kLinear * x; }
Tensor scaled_up(const Tensor& x) {
  const Tensor root = (sqrt(1 + 4 * kLinear * (abs(x) + 1 + kLinear)) - 1) * (1 / (2 * kLinear));
  return sign(x) * (square(root) - 1);
}

// One-hot rows; zeros for numbers outside of 0 to n - 1.
Tensor numbered(const Tensor& number_n, int64_t n) {
  return cast(equal(expand_dims(number_n, -1), iota({n}, 0, Dtype::kF32)), Dtype::kF32);
}

// Every row's numbers from 0 to 1.
Tensor normalised_rows(const Tensor& x_ns) {
  const Tensor low = min(x_ns, {1}, /*keep_dims=*/true);
  const Tensor high = max(x_ns, {1}, /*keep_dims=*/true);
  return (x_ns - low) / (high - low + kSmallRange);
}

}  // namespace

MuZeroModel::MuZeroModel(const MuZero& config, const EnvSpec& env, const NetworkConfig& network)
    : config_(config),
      network_(network),
      observation_size_(env.observation.size()),
      actions_(env.action.n) {
  if (env.agents > 1) {
    refuse_games(env);
  }
  refuse_memory(network);
  if (env.agents > 1 || !env.action.is_discrete()) {
    throw ConfigError(fmt::format(
        "algorithm.type: muzero plans for one agent with discrete actions, and {} has {} whose "
        "actions are {}",
        env.name, env.agents == 1 ? "one" : fmt::format("{}", env.agents), to_string(env.action)));
  }
}

std::vector<ParamSpec> MuZeroModel::specs() const {
  return declare_params([&](const Params& p) {
    const auto row = [](int64_t n) { return zeros({Dtype::kF32, {1, n}}); };
    const Heads now = first(p, row(observation_size_));
    if (config_.has_chance()) {
      afterstate(p, now.state_ns, row(actions_));
      encoded(p, row(observation_size_), row(actions_), row(observation_size_));
    }
    next(p, now.state_ns, row(config_.has_chance() ? config_.chance_codes : actions_));
  });
}

MuZeroModel::Heads MuZeroModel::heads(const Params& p, const Tensor& state_ns) const {
  const int64_t atoms = 2 * config_.support + 1;
  return {.state_ns = state_ns,
          .value_nz = perceptron(p / "value", state_ns, network_, atoms, kSmallHeads),
          .logits_na = perceptron(p / "policy", state_ns, network_, actions_, kSmallHeads)};
}

MuZeroModel::Heads MuZeroModel::first(const Params& p, const Tensor& observation_no) const {
  return heads(p, normalised_rows(perceptron(p / "represent", observation_no, network_,
                                             config_.state_size, 1.0)));
}

Tensor MuZeroModel::moved(const Params& p, const Tensor& state_ns, const Tensor& given) const {
  return normalised_rows(state_ns + perceptron(p, given, network_, config_.state_size, 1.0));
}

MuZeroModel::Afterstate MuZeroModel::afterstate(const Params& p, const Tensor& state_ns,
                                                const Tensor& taken_na) const {
  const Tensor after_ns = moved(p / "afterstate", state_ns, concat(Tensors{state_ns, taken_na}, 1));
  return {
      .state_ns = after_ns,
      .value_nz = perceptron(p / "afterstate_value", after_ns, network_, 2 * config_.support + 1,
                             kSmallHeads),
      .code_nm = perceptron(p / "chance", after_ns, network_, config_.chance_codes, kSmallHeads)};
}

Tensor MuZeroModel::encoded(const Params& p, const Tensor& before_no, const Tensor& taken_na,
                            const Tensor& after_no) const {
  const Tensor said_nm = perceptron(p / "encode", concat(Tensors{before_no, taken_na, after_no}, 1),
                                    network_, config_.chance_codes, 1.0);
  // Without this one code soon stands for everything: what helps all rows moves all of them towards it.
  return softmax((said_nm - mean(said_nm, {0}, /*keep_dims=*/true)) /
                 sqrt(variance(said_nm, {0}, /*keep_dims=*/true) + kSmallRange));
}

MuZeroModel::Heads MuZeroModel::next(const Params& p, const Tensor& state_ns,
                                     const Tensor& taken_nx) const {
  const Tensor given = concat(Tensors{state_ns, taken_nx}, 1);
  Heads out = heads(p, moved(p / "dynamics", state_ns, given));
  out.reward_nz = perceptron(p / "reward", given, network_, 2 * config_.support + 1, kSmallHeads);
  return out;
}

Tensor MuZeroModel::mean_of(const Tensor& logits_nz) const {
  const auto most = static_cast<double>(config_.support);
  return scaled_up(sum(softmax(logits_nz) * linspace(-most, most, 2 * config_.support + 1), {1}));
}

Tensor MuZeroModel::two_hot(const Tensor& value_n) const {
  const auto most = static_cast<double>(config_.support);
  const Tensor place_n1 = expand_dims(clip(scaled_down(value_n), -most, most) + most, -1);
  return maximum(1 - abs(place_n1 - iota({2 * config_.support + 1}, 0, Dtype::kF32)), 0.0);
}

MuZeroStep MuZeroModel::root(const Params& p, const Tensor& observation_no) const {
  const Heads now = first(p, observation_no);
  return {now.state_ns, zeros({Dtype::kF32, {observation_no.dim(0)}}), mean_of(now.value_nz),
          now.logits_na};
}

MuZeroStep MuZeroModel::step(const Params& p, const Tensor& state_ns,
                             const Tensor& action_n) const {
  if (!config_.has_chance()) {
    const Heads now = next(p, state_ns, numbered(action_n, actions_));
    return {now.state_ns, mean_of(now.reward_nz), mean_of(now.value_nz), now.logits_na};
  }
  const auto first_code = static_cast<double>(actions_);
  const Tensor is_code_n1 = expand_dims(greater_equal(action_n, first_code), -1);
  const Afterstate after = afterstate(p, state_ns, numbered(action_n, actions_));
  const Heads now = next(p, state_ns, numbered(action_n - first_code, config_.chance_codes));
  return {where(is_code_n1, now.state_ns, after.state_ns), mean_of(now.reward_nz),
          mean_of(where(is_code_n1, now.value_nz, after.value_nz)),
          concat(Tensors{now.logits_na, after.code_nm}, 1)};
}

Loss MuZeroModel::loss(const Params& p, const MuZeroBatch& batch) const {
  const int64_t unroll = config_.unroll;
  const double part = 1 / static_cast<double>(unroll);
  const auto at = [](const Tensor& all, int64_t k) {
    return squeeze(all[{kAll, Slice{k, k + 1}}], 1);
  };
  Tensor policy = zeros({Dtype::kF32, {}}), value = policy, reward = policy, after_value = policy,
         chance = policy, commitment = policy;
  Heads now = first(p, batch.observation_bo);
  for (int64_t k = 0; k <= unroll; ++k) {
    const double share = k == 0 ? 1 : part;
    const Tensor counts_b = batch.weight_b * at(batch.counts_bk, k);
    policy = policy + share * mean(batch.weight_b * at(batch.acts_bk, k) *
                                   soft_cross_entropy_rows(now.logits_na, at(batch.policy_bka, k)));
    value = value + share * mean(counts_b * soft_cross_entropy_rows(
                                                now.value_nz, two_hot(at(batch.value_bk, k))));
    if (k > 0) {
      reward =
          reward + share * mean(counts_b * soft_cross_entropy_rows(
                                               now.reward_nz, two_hot(at(batch.reward_bk, k - 1))));
    }
    if (k == unroll) {
      break;
    }
    const Tensor half = 0.5 * (now.state_ns + mstrain::stop_gradient(now.state_ns));
    const Tensor taken_ba = numbered(at(batch.action_bk, k), actions_);
    if (!config_.has_chance()) {
      now = next(p, half, taken_ba);
      continue;
    }
    const Afterstate after = afterstate(p, half, taken_ba);
    const Tensor before_bo = k == 0 ? batch.observation_bo : at(*batch.following_bko, k - 1);
    const Tensor encoded_bm = encoded(p, before_bo, taken_ba, at(*batch.following_bko, k));
    const Tensor code_bm = one_hot(argmax(encoded_bm), config_.chance_codes);
    const Tensor follows_b = batch.weight_b * at(batch.counts_bk, k + 1);
    after_value =
        after_value + part * mean(counts_b * soft_cross_entropy_rows(
                                                 after.value_nz, two_hot(at(batch.value_bk, k))));
    chance = chance + part * mean(follows_b * soft_cross_entropy_rows(after.code_nm, code_bm));
    commitment = commitment + part * mean(follows_b * sum(square(code_bm - encoded_bm), {1}));
    // One-hot forwards; backwards as if the encoder's shares had been taken.
    now = next(p, after.state_ns, code_bm + (encoded_bm - mstrain::stop_gradient(encoded_bm)));
  }
  Loss out{policy + config_.value_weight * value + reward,
           {{"policy_loss", policy}, {"value_loss", value}, {"reward_loss", reward}}};
  if (config_.has_chance()) {
    out.loss =
        out.loss + config_.value_weight * after_value + chance + config_.commitment * commitment;
    out.measures.insert(out.measures.end(), {{"afterstate_loss", after_value},
                                             {"chance_loss", chance},
                                             {"commitment_loss", commitment}});
  }
  return out;
}

void MuZero::fields(ConfigFields& v) {
  v("type", type, "how the agent learns", rule::one_of({"muzero"}));
  v("simulations", simulations, "of a search, in the learned model",
    rule::at_least(2).at_most(10000).elsewhere_called({"num_simulations"}));
  v("considered", considered, "actions that a search begins with, where there are more",
    rule::at_least(2).elsewhere_called({"max_num_considered_actions"}));
  v("spread", spread,
    "values of actions that lie closer together are not stretched to [0, 1] in a search: the noise "
    "of what is learned would be taken for opinions",
    rule::at_least(0).elsewhere_called({"value_delta_max"}));
  v("unroll", unroll, "steps of the model that an update learns",
    rule::at_least(1).at_most(100).elsewhere_called({"num_unroll_steps"}));
  v("n_step", n_step, "steps whose rewards are counted before a search's value follows",
    rule::at_least(1).at_most(10000).elsewhere_called({"td_steps"}));
  v("discount", discount, "of what comes a step later",
    rule::above(0).at_most(1).elsewhere_called({"gamma"}));
  v("state_size", state_size, "numbers of a hidden state", rule::at_least(2).at_most(65536));
  v("support", support, "atoms on each side of 0, of sqrt(|x| + 1) - 1: 20 reach to 440",
    rule::at_least(1).at_most(1000).elsewhere_called({"support_size"}));
  v("chance_codes", chance_codes,
    "what chance does behind an action is told by one of so many codes, which are learned; 0: the "
    "model is of a world without chance",
    rule::at_least(0).at_most(4096).elsewhere_called({"chance_space_size", "codebook_size"}));
  v("commitment", commitment,
    "chance_codes: weight of how far what the encoder says is from one code",
    rule::at_least(0).elsewhere_called({"commitment_loss_weight"}));
  v("value_weight", value_weight, "of the value's loss", rule::at_least(0));
  v("buffer_size", buffer_size, "steps that are kept, of all environments together",
    rule::at_least(1).at_most(1e9).elsewhere_called({"replay_size"}));
  v("learning_starts", learning_starts,
    "steps of all environments together before the first update", rule::at_least(0));
  v("train_every", train_every, "steps of every environment between two times of learning",
    rule::at_least(1).at_most(1e6));
  v("updates", updates, "each time", rule::at_least(1).at_most(1e6));
  v("batch_size", batch_size, "sequences of an update", rule::at_least(1).at_most(1 << 24));
  v("prioritised", prioritised,
    "sequences are drawn in proportion to a power of how far the search's value of their first "
    "step "
    "was from what came of it, else alike",
    rule::elsewhere_called({"use_priority", "prioritized"}));
  v("priority_exponent", priority_exponent, "prioritised: that power",
    rule::at_least(0).at_most(2).elsewhere_called({"priority_prob_alpha"}));
  v("importance", importance,
    "prioritised: how far weights correct for being drawn more often; 1: wholly",
    rule::at_least(0).at_most(1).elsewhere_called({"priority_prob_beta"}));
  v("reanalyse", reanalyse,
    "for each step that is taken so many old ones are searched anew, with what was learned since",
    rule::at_least(0).at_most(1000));
  v("target_rate", target_rate,
    "how far the weights that search old steps anew, are evaluated and play follow those that "
    "learn, "
    "in each update",
    rule::above(0).at_most(1).elsewhere_called({"tau", "ema_decay"}));
}

}  // namespace mstrain::reinforcement
