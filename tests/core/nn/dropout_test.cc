#include "core/nn/attention.h"
#include "core/nn/random_scope.h"
#include "core/ops/statistics.h"
#include "core/runtime/context.h"
#include "core/transform/recompute.h"
#include "core/transform/scan.h"
#include "core/transform/vmap.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Dropout : public ::testing::Test {
 protected:
  Dropout() : context_(current_context()) { context_.training = true; }
  Context context_;
  const Params root_;
};

TEST_F(Dropout, IsTheIdentityOutsideOfTrainingAndAtRateZero) {
  const Tensor x = random_tensor({4, 5}, 1);
  EXPECT_EQ(dropout(root_ / "drop", x, 0.5).identity(), x.identity());
  const ContextScope scope(context_);
  EXPECT_EQ(dropout(root_ / "drop", x, 0).identity(), x.identity());
}

TEST_F(Dropout, NeedsNoKeyToDeclareParameters) {
  const ContextScope scope(context_);
  EXPECT_NO_THROW(declare_params([](const Params& p) {
    linear(p, dropout(p / "drop", zeros({Dtype::kF32, {2, 3}}), 0.5), {4});
  }));
}

TEST_F(Dropout, NamesTheLayerThatFindsNoKey) {
  const ContextScope scope(context_);
  EXPECT_THAT(
      [&] { dropout(root_ / "h" / 3 / "drop", f64({1}), 0.5); },
      ThrowsMessage<Error>(HasSubstr("h.3.drop: draws random numbers, but no RandomScope")));
}

TEST_F(Dropout, KeepsTheMeanAndScalesWhatStays) {
  const ContextScope scope(context_);
  const RandomScope random(rng_key(7));
  const std::vector<double> y = to_doubles(dropout(root_, full({100, 100}, 1), 0.2));
  double total = 0;
  for (double value : y) {
    ASSERT_TRUE(value == 0 || std::abs(value - 1.25) < 1e-6) << value;
    total += value;
  }
  EXPECT_NEAR(total / 1e4, 1, 0.025);  // five standard deviations
}

TEST_F(Dropout, DrawsByKeyAndLayerAlone) {
  const ContextScope scope(context_);
  const Tensor x = full({64}, 1);
  const auto draw = [&](uint64_t seed, const char* layer) {
    const RandomScope random(rng_key(seed));
    return to_doubles(dropout(root_ / layer, x, 0.5));
  };
  EXPECT_EQ(draw(1, "a"), draw(1, "a"));
  EXPECT_NE(draw(1, "a"), draw(1, "b"));
  EXPECT_NE(draw(1, "a"), draw(2, "a"));
}

TEST_F(Dropout, UsesTheInnermostKey) {
  const ContextScope scope(context_);
  const Tensor x = full({64}, 1);
  const RandomScope outer(rng_key(1));
  const std::vector<double> first = to_doubles(dropout(root_, x, 0.5));
  {
    const RandomScope inner(rng_key(2));
    EXPECT_NE(to_doubles(dropout(root_, x, 0.5)), first);
  }
  EXPECT_EQ(to_doubles(dropout(root_, x, 0.5)), first);
}

TEST_F(Dropout, TakesANewKeyInACompiledStep) {
  const ContextScope scope(context_);
  const auto f = [&](const Tensor& key, const Tensor& x) {
    const RandomScope random(key);
    return dropout(root_ / "drop", x, 0.5);
  };
  const auto step = jit(f);
  const Tensor x = full({64}, 1);
  for (uint64_t seed : {1, 2, 3}) {
    expect_equal(step(rng_key(seed), x), f(rng_key(seed), x));
  }
  EXPECT_EQ(step.compile_count(), 1);
}

// What a batch of 12 samples [5, 3] keeps, computed by `run` from samples and their numbers [12].
class DropoutByPlace : public Dropout {
 protected:
  static constexpr int64_t kSamples = 12;
  static Tensor layer(const Tensor& x) {
    const Params p;
    return dropout(p / "b", tanh(dropout(p / "a", x, 0.3)), 0.4);
  }
  // `layer` on `rows` samples of which the first has this number.
  static Tensor layer_on(const Tensor& x, const Tensor& first, int64_t rows) {
    const RandomScope random(rng_key(9), SamplePart{first, rows, kSamples});
    return layer(x);
  }
  void expect_the_whole(const std::function<Tensor(const Tensor& x, const Tensor& numbers)>& run) {
    const ContextScope scope(context_);
    const Tensor x = random_tensor({kSamples, 5, 3}, 4);
    const Tensor numbers = iota({kSamples}, 0);
    const auto whole = [](const Tensor& x) {
      const RandomScope random(rng_key(9));
      return layer(x);
    };
    expect_equal(run(x, numbers), whole(x));
    expect_equal(jit(run)(x, numbers), whole(x));
  }
};

TEST_F(DropoutByPlace, IsOfTheBatchInAnyMicroBatches) {
  for (const int64_t n : {2, 3, 4, 6, 12}) {
    const int64_t rows = kSamples / n;
    expect_the_whole([&](const Tensor& x, const Tensor& numbers) {
      const auto micro = [&](const std::tuple<>&, const std::tuple<Tensor, Tensor>& part) {
        const auto& [samples, number] = part;
        return std::pair(std::tuple<>{}, layer_on(samples, select(number, 0, 0), rows));
      };
      const auto parts = std::make_tuple(reshape(x, {n, rows, 5, 3}), reshape(numbers, {n, rows}));
      return reshape(scan(micro, std::tuple<>{}, parts).second, x.shape());
    });
  }
}

TEST_F(DropoutByPlace, IsOfTheBatchInEveryLaneOfVmap) {
  expect_the_whole([](const Tensor& x, const Tensor& numbers) {
    const auto one = [](const Tensor& sample, const Tensor& number) {
      return squeeze(layer_on(expand_dims(sample, 0), number, 1), 0);
    };
    return vmap(one)(x, numbers);
  });
}

TEST_F(DropoutByPlace, IsTheSameWhenComputedAgain) {
  const ContextScope scope(context_);
  const auto half = [](const Tensor& x) { return layer_on(x, scalar(6, Dtype::kI32), 6); };
  const auto loss = [](const auto& f) {
    return [f](const Tensor& x) { return sum(square(f(x))); };
  };
  const Tensor x = random_tensor({6, 5, 3}, 4);
  expect_equal(grad(loss(recompute(half)))(x), grad(loss(half))(x));
}

TEST_F(DropoutByPlace, NamesTheLayerWhoseDrawDoesNotCountSamples) {
  const ContextScope scope(context_);
  const RandomScope random(rng_key(1), SamplePart{scalar(0, Dtype::kI32), 4, 8});
  EXPECT_THAT(
      [&] {
        dropout(root_ / "drop", f64({1, 2, 3}), 0.5);
      },
      ThrowsMessage<Error>(HasSubstr("drop: draws [3] for 4 samples")));
}

// Rows of a sample: [b t, c] drops what [b, t, c] does.
TEST_F(DropoutByPlace, CountsTheRowsOfEachSample) {
  const ContextScope scope(context_);
  const Tensor x = random_tensor({4, 5, 3}, 4);
  const Tensor rows = layer_on(reshape(x, {20, 3}), scalar(8, Dtype::kI32), 4);
  expect_equal(reshape(rows, x.shape()), layer_on(x, scalar(8, Dtype::kI32), 4));
}

class DroppedAttention : public Dropout {
 protected:
  // At this rate no element of a small tensor is dropped, and what stays is scaled by 1 in f64 to 1e-9.
  static constexpr double kNever = 1e-9;
  void expect_like_the_operation(const Shape& q_shape, const Shape& k_shape,
                                 const AttentionOptions& options) {
    const ContextScope scope(context_);
    const RandomScope random(rng_key(1));
    const Tensor q = random_tensor(q_shape, 2);
    const Tensor k = random_tensor(k_shape, 3);
    const Tensor v = random_tensor(k_shape, 4);
    expect_near(attention(root_, q, k, v, kNever, options), attention(q, k, v, options), 1e-7);
  }
};

TEST_F(DroppedAttention, IsTheOperationWhereNothingIsDropped) {
  expect_like_the_operation({2, 5, 3, 4}, {2, 5, 3, 4}, {});
  expect_like_the_operation({2, 5, 3, 4}, {2, 5, 3, 4}, {.causal = true, .scale = 0.3});
  expect_like_the_operation({2, 3, 3, 4}, {2, 5, 3, 4},
                            {.causal = true, .bias = random_tensor({3, 3, 5}, 5)});
}

TEST_F(DroppedAttention, GivesZeroForAQueryWithoutKeys) {
  expect_like_the_operation({1, 5, 2, 4}, {1, 3, 2, 4}, {.causal = true});
  expect_like_the_operation({1, 2, 1, 4}, {1, 2, 1, 4},
                            {.bias = reshape(f64({-INFINITY, -INFINITY, 0, 0}), {2, 2})});
}

TEST_F(DroppedAttention, DropsProbabilitiesNotValues) {
  const ContextScope scope(context_);
  const RandomScope random(rng_key(1));
  const Tensor zero = zeros({Dtype::kF64, {1, 50, 4, 2}});
  const Tensor one = full({1, 50, 4, 2}, 1, Dtype::kF64);
  const Tensor kept =
      attention(root_, zero, zero, one, 0.5);  // fraction of 50 keys that stay, times 2
  for (double fraction : to_doubles(kept)) {
    EXPECT_NEAR(fraction * 25, std::round(fraction * 25), 1e-9);
  }
  EXPECT_NEAR(item(mean(kept)), 1, 0.1);  // ten standard deviations
  expect_equal(select(kept, 3, 0), select(kept, 3, 1));
}

// Each sample's probabilities are drawn by its place in the batch.
TEST_F(DroppedAttention, IsOfTheBatchInAnyPartOfIt) {
  const ContextScope scope(context_);
  const Tensor x = random_tensor({6, 7, 2, 4}, 5);
  const auto on = [&](const Tensor& part, int64_t first) {
    const RandomScope random(rng_key(3), SamplePart{scalar(first, Dtype::kI32), part.dim(0), 6});
    return attention(root_ / "attn", part, part, part, 0.4, {.causal = true});
  };
  const Tensor whole = on(x, 0);
  for (const int64_t first : {0, 2, 4}) {
    expect_near(on(slice(x, 0, first, first + 2), first), slice(whole, 0, first, first + 2));
  }
}

TEST_F(DroppedAttention, NeverMakesTheScoresInEitherDirection) {
  const ContextScope scope(context_);
  constexpr int64_t kLength = 1024;
  const auto loss = [&](const Tensor& x) {
    const RandomScope random(rng_key(3));
    return sum(square(attention(root_ / "attn", x, x, x, 0.1, {.causal = true})));
  };
  Tensors captures;
  const GraphPtr graph = trace_program(
      Types{{Dtype::kF32, {1, kLength, 2, 16}}},
      [&](std::span<const Tensor> x) { return Tensors{grad(loss)(x[0])}; }, &captures);
  EXPECT_LT(compile(*graph)->memory().arena, 2 * kLength * kLength * 4 / 2);
}

TEST_F(DroppedAttention, MultiHeadProjectsQueriesAndMemory) {
  const Tensor x = random_tensor({2, 3, 6}, 1);
  const Tensor memory = random_tensor({2, 5, 4}, 2);
  const auto layer = [&](const Params& p, const Tensor& x, const Tensor& memory) {
    return multi_head_attention(p / "attn", x, memory, {.heads = 2});
  };
  const auto specs = declare_params([&](const Params& p) {
    layer(p, zeros({Dtype::kF32, x.shape()}), zeros({Dtype::kF32, memory.shape()}));
  });
  Params p;
  uint64_t seed = 3;
  std::vector<std::string> names;
  for (const ParamSpec& spec : specs) {
    p.set(spec.name, random_tensor(spec.type.shape, seed++));
    names.push_back(spec.name + to_string(spec.type.shape));
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("attn.q_proj.weight[6, 2, 3]", "attn.q_proj.bias[2, 3]",
                                     "attn.k_proj.weight[4, 2, 3]", "attn.k_proj.bias[2, 3]",
                                     "attn.v_proj.weight[4, 2, 3]", "attn.v_proj.bias[2, 3]",
                                     "attn.out_proj.weight[2, 3, 6]", "attn.out_proj.bias[6]"));
  const Params a = p / "attn";
  const Tensor out =
      attention(linear(a / "q_proj", x, {2, 3}), linear(a / "k_proj", memory, {2, 3}),
                linear(a / "v_proj", memory, {2, 3}));
  const Tensor weight = reshape(*p.find("attn.out_proj.weight"), {6, 6});
  expect_near(layer(p, x, memory),
              matmul(reshape(out, {2, 3, 6}), weight) + *p.find("attn.out_proj.bias"));
}

}  // namespace
}  // namespace mstrain
