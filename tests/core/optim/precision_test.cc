#include <numeric>

#include "core/ops/build.h"
#include "core/ops/random.h"
#include "core/optim/optimizer.h"
#include "core/optim/stored_update.h"
#include "core/runtime/context.h"
#include "tests/amount.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kSize = 700;  // two whole blocks and a part
const Shape kMatrix{20, 35};

const std::vector<ParamSpec>& long_specs() {
  static const std::vector<ParamSpec> specs{
      {"weight", {Dtype::kF32, {kSize}}, zeros_init(), true},
      {"bias", {Dtype::kF32, {3}}, zeros_init(), false},
      {"layers.0.weight", {Dtype::kF32, kMatrix}, zeros_init(), true, MatrixForm()}};
  return specs;
}

Params numbers(uint64_t seed, double scale = 1) {
  Params p;
  p.set("weight", cast(scale * random_tensor({kSize}, seed), Dtype::kF32));
  p.set("bias", cast(scale * random_tensor({3}, seed + 1), Dtype::kF32));
  p.set("layers.0.weight", cast(scale * random_tensor(kMatrix, seed + 2), Dtype::kF32));
  return p;
}

struct Mode {
  const char* name;
  PrecisionConfig precision;
  double error;  // of a parameter after kSteps updates of about kRate, of size 1 to begin with
};

constexpr double kRate = 0.01;
constexpr int kSteps = kSanitized ? 10 : 40;

// bf16 has steps of 2^-8 at 1, each rounded up or down: √kSteps of them where there is no master. Codes of 8 bits put
// the direction of a step off by a part of it, differently in each step.
std::vector<Mode> modes() {
  const auto mode = [](const char* name, FloatType params, MasterType master, MomentType moments,
                       double error) {
    PrecisionConfig config;
    config.params = params;
    config.master = master;
    config.moments = moments;
    return Mode{name, config, error};
  };
  constexpr auto fp32 = FloatType::kFp32, bf16 = FloatType::kBf16, fp16 = FloatType::kFp16;
  constexpr auto none = MasterType::kNone, master = MasterType::kFp32;
  constexpr auto m32 = MomentType::kFp32, m16 = MomentType::kBf16, m8 = MomentType::kInt8;
  const double step = 0x1p-8;
  return {mode("fp32", fp32, master, m32, 1e-5),
          mode("fp32, moments bf16", fp32, master, m16, 0.02),
          mode("fp32, moments int8", fp32, master, m8, 0.06),
          mode("bf16", bf16, master, m32, step),
          mode("bf16, moments bf16", bf16, master, m16, 0.02 + step),
          mode("bf16, moments int8", bf16, master, m8, 0.06 + step),
          mode("bf16 alone", bf16, none, m32, 8 * step),
          mode("bf16 alone, moments bf16", bf16, none, m16, 0.02 + 8 * step),
          mode("bf16 alone, moments int8", bf16, none, m8, 0.06 + 8 * step),
          mode("fp16", fp16, master, m32, step / 4)};
}

const OptimizerConfig kRules[] = {
    {.type = OptimizerType::kAdamW, .weight_decay = 0.1},
    {.type = OptimizerType::kAdam, .weight_decay = 0.1},
    {.type = OptimizerType::kSgd, .momentum = 0.9},
    {.type = OptimizerType::kAdagrad},
    {.type = OptimizerType::kRmsProp, .momentum = 0.5},
    {.type = OptimizerType::kLamb, .weight_decay = 0.1},
    {.type = OptimizerType::kMuon, .weight_decay = 0.1, .momentum = 0.9},
};

struct Trained {
  Params params;
  OptimizerState state;
};

// Gradients that pull towards a target, plus noise, so that first and second moments are of different size.
Params gradient_at(const Params& params, const PrecisionConfig& precision, int step) {
  Params gradients;
  const Params noise = numbers(1000 + 2 * static_cast<uint64_t>(step), 0.3);
  const Params target = numbers(7, 2);
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string& name = params.name(i);
    const Tensor g = cast(params.tensor(i), Dtype::kF32) - *target.find(name) + *noise.find(name);
    gradients.set(name, cast(0.5 * g, precision.param_dtype()));
  }
  return gradients;
}

Trained train(const OptimizerConfig& config, const PrecisionConfig& precision, int steps,
              bool compiled = false) {
  const Optimizer optimizer(config, long_specs(), precision);
  Trained now{numbers(1), {}};
  now.state = optimizer.init(now.params);
  now.params = optimizer.stored(now.params);
  const auto update = [&](Params p, Params g, OptimizerState s, const Tensor& key) {
    return optimizer.update(std::move(p), std::move(g), std::move(s), scalar(kRate), scalar(1),
                            {.apply = {}, .key = key});
  };
  const auto jitted = jit(update);
  for (int step = 0; step < steps; ++step) {
    const Params gradients = gradient_at(now.params, precision, step);
    const Tensor key = fold_in(rng_key(3), step);
    std::tie(now.params, now.state) = compiled ? jitted(now.params, gradients, now.state, key)
                                               : update(now.params, gradients, now.state, key);
  }
  return now;
}

double greatest_difference(const Params& a, const Params& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = to_doubles(a.tensor(i));
    const std::vector<double> y = to_doubles(b.tensor(i));
    for (size_t j = 0; j < x.size(); ++j) {
      most = std::max(most, std::abs(x[j] - y[j]));
    }
  }
  return most;
}

double mean_difference(const Params& a, const Params& b) {
  const std::vector<double> x = to_doubles(*a.find("weight"));
  const std::vector<double> y = to_doubles(*b.find("weight"));
  double sum = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    sum += std::abs(x[j] - y[j]);
  }
  return sum / static_cast<double>(x.size());
}

TEST(StoredState, HasTheTypesThatTheSectionSays) {
  PrecisionConfig precision;
  precision.params = FloatType::kBf16;
  precision.moments = MomentType::kInt8;
  const Optimizer optimizer({}, long_specs(), precision);
  EXPECT_THAT(optimizer.slot_names(),
              ElementsAre("master", "exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale"));
  const Params params = numbers(1);
  const OptimizerState state = optimizer.init(params);
  std::vector<std::string> types;
  for (const auto& [name, values] : state.slots) {
    types.push_back(to_string(values.find("weight")->type()));
  }
  EXPECT_THAT(types, ElementsAre("f32[700]", "u8[700]", "f32[3]", "u8[700]", "f32[3]"));
  expect_equal(*state.slots[0].second.find("weight"), *params.find("weight"));
  EXPECT_EQ(optimizer.stored(params).find("bias")->dtype(), Dtype::kBF16);
}

TEST(StoredState, FollowsTheRuleInF32WithinItsRounding) {
  for (const OptimizerConfig& config : kRules) {
    const Trained exact = train(config, {}, kSteps);
    for (const Mode& mode : modes()) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(config.type), mode.name));
      const Trained stored = train(config, mode.precision, kSteps);
      // A trajectory that reacts to its own errors: on average far below the bound of a single element.
      EXPECT_LT(mean_difference(stored.params, exact.params), mode.error);
      EXPECT_LT(greatest_difference(stored.params, exact.params), 6 * mode.error);
      EXPECT_EQ(item(stored.state.step), kSteps);
    }
  }
}

// Gradients of one block, one of them 1 and the others `part` of that, without a direction.
TEST(StoredState, NoStepIsLongerThanAdamsWhereABlocksElementsAreFarApart) {
  const std::vector<ParamSpec> specs{{"w", {Dtype::kF32, {256}}, zeros_init(), true}};
  for (const OptimizerConfig& config :
       {OptimizerConfig{.type = OptimizerType::kAdamW, .betas = {0.9, 0.95}},
        OptimizerConfig{
            .type = OptimizerType::kAdam, .betas = {0.9, 0.99}, .weight_decay = 1e-9}}) {
    const auto [beta1, beta2] = config.betas;
    const double longest = (1 - beta1) / std::sqrt((1 - beta2) * (1 - beta1 * beta1 / beta2));
    PrecisionConfig precision;
    precision.moments = MomentType::kInt8;
    const Optimizer optimizer(config, specs, precision);
    const auto update = jit([&](Params p, Params g, OptimizerState s, const Tensor& key) {
      return optimizer.update(std::move(p), std::move(g), std::move(s), scalar(kRate), scalar(1),
                              {.apply = {}, .key = key});
    });
    for (const double part : {1e-3, 1e-4, 1e-5, 1e-6}) {
      SCOPED_TRACE(fmt::format("{}: elements {} of the largest", name_of(config.type), part));
      Params params = init_params(specs, 0);
      OptimizerState state = optimizer.init(params);
      const Tensor sizes = where(equal(iota({256}, 0), 0), full({}, 1), part);
      const int steps = kSanitized ? 60 : 300;
      for (int step = 1; step <= steps; ++step) {
        const Tensor before = copy(*params.find("w"));
        Params gradients;
        gradients.set("w",
                      cast(random_tensor({256}, static_cast<uint64_t>(step)), Dtype::kF32) * sizes);
        std::tie(params, state) = update(params, gradients, state, fold_in(rng_key(3), step));
        const double corrected = std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
        ASSERT_LE(item(max(abs(*params.find("w") - before))), 1.001 * kRate * longest * corrected)
            << "step " << step;
      }
    }
  }
}

TEST(StoredState, GraphModeGivesTheSameUpToRounding) {
  for (const OptimizerConfig& config : kRules) {
    for (const Mode& mode : modes()) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(config.type), mode.name));
      const Trained eager = train(config, mode.precision, 3);
      const Trained compiled = train(config, mode.precision, 3, true);
      EXPECT_LE(greatest_difference(compiled.params, eager.params), mode.error + 0x1p-7);
    }
  }
}

// The parameter that is computed with is the master, rounded.
TEST(StoredState, ParametersAreTheirMastersRounded) {
  for (const FloatType type : {FloatType::kBf16, FloatType::kFp16}) {
    PrecisionConfig precision;
    precision.params = type;
    const Trained stored = train({}, precision, 5);
    const Params& master = stored.state.slots[0].second;
    for (size_t i = 0; i < master.size(); ++i) {
      expect_equal(stored.params.tensor(i), cast(master.tensor(i), precision.param_dtype()));
    }
  }
}

// Updates of a hundredth of a bf16 step: rounding to nearest would never move.
TEST(StoredState, SmallUpdatesAddUpWithoutAMaster) {
  PrecisionConfig precision;
  precision.params = FloatType::kBf16;
  precision.master = MasterType::kNone;
  const std::vector<ParamSpec> one{{"w", {Dtype::kF32, {4096}}, zeros_init(), false}};
  const Optimizer optimizer({.type = OptimizerType::kSgd}, one, precision);
  Params params;
  params.set("w", full({4096}, 1));
  OptimizerState state = optimizer.init(params);
  params = optimizer.stored(params);
  constexpr int kUpdates = 50;
  for (int step = 0; step < kUpdates; ++step) {
    Params gradient;
    gradient.set("w", full({4096}, -1, Dtype::kBF16));
    std::tie(params, state) =
        optimizer.update(params, gradient, state, scalar(0x1p-7 / 100), scalar(1),
                         {.apply = {}, .key = fold_in(rng_key(9), step)});
  }
  const std::vector<double> w = to_doubles(*params.find("w"));
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  EXPECT_NEAR(mean, 1 + kUpdates * 0x1p-7 / 100, 5 * 0x1p-7 * std::sqrt(0.25 / 4096.0));
}

TEST(StoredState, AStepThatIsNotAppliedChangesNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const OptimizerConfig& config : kRules) {
    for (const Mode& mode : modes()) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(config.type), mode.name));
      const Optimizer optimizer(config, long_specs(), mode.precision);
      const Trained before = train(config, mode.precision, 2);
      Params gradients;
      for (size_t i = 0; i < before.params.size(); ++i) {
        const Tensor& p = before.params.tensor(i);
        gradients.set(before.params.name(i), full(p.shape(), nan, p.dtype()));
      }
      const auto update = [&](const Params& p, const Params& g, const OptimizerState& s) {
        return optimizer.update(p, g, s, scalar(kRate), scalar(nan),
                                {.apply = scalar(0) > 1, .key = rng_key(5)});
      };
      for (const bool compiled : {false, true}) {
        const auto [params, state] = compiled ? jit(update)(before.params, gradients, before.state)
                                              : update(before.params, gradients, before.state);
        const Tensors old_leaves = flatten_tree(before.state);
        const Tensors new_leaves = flatten_tree(state);
        for (size_t i = 0; i < old_leaves.size(); ++i) {
          expect_equal(new_leaves[i], old_leaves[i]);
        }
        for (size_t i = 0; i < params.size(); ++i) {
          expect_equal(params.tensor(i), before.params.tensor(i));
        }
      }
    }
  }
}

TEST(StoredState, DependsOnNoThreads) {
  for (const Mode& mode : modes()) {
    const auto on = [&](int threads) {
      Context context;
      context.threads = threads;
      const ContextScope scope(context);
      const std::vector<ParamSpec> one{{"w", {Dtype::kF32, {70001}}, zeros_init(), true}};
      const Optimizer optimizer({.weight_decay = 0.1}, one, mode.precision);
      Params params;
      params.set("w", cast(random_tensor({70001}, 1), Dtype::kF32));
      OptimizerState state = optimizer.init(params);
      params = optimizer.stored(params);
      for (int step = 0; step < 2; ++step) {
        Params gradient;
        gradient.set("w", cast(random_tensor({70001}, 5), mode.precision.param_dtype()));
        std::tie(params, state) =
            optimizer.update(params, gradient, state, scalar(kRate), scalar(1),
                             {.apply = {}, .key = fold_in(rng_key(9), step)});
      }
      Tensors all = flatten_tree(params);
      for (const Tensor& leaf : flatten_tree(state)) {
        all.push_back(leaf);
      }
      return all;
    };
    SCOPED_TRACE(mode.name);
    const Tensors one = on(1);
    const Tensors two = on(2);
    for (size_t i = 0; i < one.size(); ++i) {
      expect_equal(two[i], one[i]);
    }
  }
}

TEST(StoredState, NeedsAKeyWhereItRoundsStochastically) {
  PrecisionConfig precision;
  precision.moments = MomentType::kBf16;
  const Optimizer optimizer({}, long_specs(), precision);
  const Params params = numbers(1);
  EXPECT_THAT(
      [&] { optimizer.update(params, numbers(2), optimizer.init(params), scalar(0.1), scalar(1)); },
      ThrowsMessage<Error>(HasSubstr("needs a key")));
}

}  // namespace
}  // namespace mstrain
