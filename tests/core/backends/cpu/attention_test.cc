// Attention beyond one block, over slices, with dropout and caches, for every thread count.
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "tests/amount.h"
#include "tests/core/backends/cpu/against_reference.h"

namespace mstrain {
namespace {

// q, k, v are slices of one [b, t, 3, h, d] tensor.
Tensors heads(int64_t b, int64_t t, int64_t h, int64_t d, uint64_t seed) {
  const Tensor all = random({b, t, 3, h, d}, seed);
  return {select(all, 2, 0), select(all, 2, 1), select(all, 2, 2)};
}

TEST(CpuAttention, AttentionOverSlicesOfOneTensor) {
  for (bool causal : {false, true}) {
    for (int64_t t : {1, 64, 150}) {
      const Attrs attrs{{"causal", causal}, {"scale", 0.3}};
      // One head: queries and keys are spread over threads; six: heads are.
      for (int64_t h : {1, 3}) {
        if (kSanitized && t == 150 && (h == 3) != causal) {
          continue;
        }
        Tensors inputs = heads(h == 1 ? 1 : 2, t, h, 20, 20);
        expect_right("attention", inputs, attrs, 5e-6);
        const Tensors out = run("attention", inputs, attrs, backend_named("reference"));
        inputs.insert(inputs.begin(), random(out[0].shape(), 21));
        inputs.insert(inputs.end(), {out[0], out[1]});
        expect_right("attention_grad", inputs, attrs, 5e-6);
      }
    }
  }
}

TEST(CpuAttention, AttentionOfFewerQueriesOfOtherWidthWithBias) {
  for (bool causal : {false, true}) {
    for (const Shape& bias :
         {Shape{1, 1, 70, 133}, Shape{2, 1, 70, 133}, Shape{1, 3, 70, 133}, Shape{2, 3, 70, 133}}) {
      if (kSanitized && (bias[1] == 3) != causal) {
        continue;
      }
      const Attrs attrs{{"causal", causal}, {"scale", -0.4}};
      Tensors inputs{random({2, 70, 3, 24}, 22), random({2, 133, 3, 24}, 23),
                     random({2, 133, 3, 40}, 24), random(bias, 25)};
      expect_right("attention", inputs, attrs, 5e-6);
      const Tensors out = run("attention", inputs, attrs, backend_named("reference"));
      inputs.insert(inputs.begin(), random(out[0].shape(), 26));
      inputs.insert(inputs.end(), {out[0], out[1]});
      expect_right("attention_grad", inputs, attrs, 5e-6);
    }
  }
}

// A part of a larger draw, whose rows begin anywhere in the generator's blocks of four words.
TEST(CpuAttention, AttentionWithDropoutDrawsWhatTheReferenceDraws) {
  for (const auto& [t, s, causal] :
       {std::tuple(1, 1, false), {64, 64, true}, {150, 150, true}, {70, 133, false}}) {
    for (const int64_t h : {1, 3}) {  // one head: queries and keys are spread over threads
      if (kSanitized && t == 150 && h == 3) {
        continue;
      }
      const Attrs attrs{{"causal", causal},
                        {"scale", 0.3},
                        {"rate", 0.25},
                        {"site", int64_t{12345}},
                        {"whole", Shape{5, h + 1, t + 2, s + 3}}};
      const Tensor key = tensor<uint32_t>(std::vector<uint32_t>{17, 4}, {2});
      const Tensor offset = tensor<int32_t>(std::vector<int32_t>{3, 1, 2, 3}, {4});
      Tensors inputs{random({2, t, h, 20}, 51), random({2, s, h, 20}, 52),
                     random({2, s, h, 24}, 53), key, offset};
      expect_right("attention_dropout", inputs, attrs, 5e-6);
      const Tensors out = run("attention_dropout", inputs, attrs, backend_named("reference"));
      inputs.insert(inputs.begin(), random(out[0].shape(), 54));
      inputs.insert(inputs.end(), {out[0], out[1]});
      expect_right("attention_dropout_grad", inputs, attrs, 5e-6);
    }
  }
}

TEST(CpuAttention, AttentionOfMoreQueriesThanKeysLeavesTheFirstOnesEmpty) {
  const Attrs attrs{{"causal", true}, {"scale", 0.2}};
  Tensors inputs{random({1, 90, 2, 16}, 27), random({1, 20, 2, 16}, 28),
                 random({1, 20, 2, 16}, 29)};
  expect_right("attention", inputs, attrs, 5e-6);
  const Tensors out = run("attention", inputs, attrs, backend_named("reference"));
  inputs.insert(inputs.begin(), random(out[0].shape(), 30));
  inputs.insert(inputs.end(), {out[0], out[1]});
  expect_right("attention_grad", inputs, attrs, 5e-6);
}

// As in generation: few queries over a cache whose end a bias hides, or all of it.
TEST(CpuAttention, AttentionOfAFewQueriesOverPartOfACache) {
  for (int64_t t : {1, 3, 4, 5}) {
    for (int64_t seen : {0, 1, 17, 90, 133}) {
      std::vector<float> hidden;
      for (int64_t j = 0; j < 2 * 133; ++j) {
        const int64_t last = j < 133 ? seen : 133;
        const bool gap = j % 133 == 5;
        hidden.push_back(j % 133 < last && !gap ? 0.25F : -std::numeric_limits<float>::infinity());
      }
      const Tensor bias = copy(broadcast_to(tensor<float>(hidden, {2, 1, 1, 133}), {2, 1, t, 133}));
      const Tensor keys = slice(random({2, 140, 3, 24}, 33), 1, 4, 137);
      const Tensor values = slice(random({2, 133, 3, 48}, 34), 3, 8, 40);
      expect_right("attention", {random({2, t, 3, 24}, 32), keys, values, bias},
                   {{"causal", false}, {"scale", 0.3}}, 5e-6);
      expect_right("attention", {random({2, t, 3, 24}, 32), keys, values},
                   {{"causal", true}, {"scale", 0.3}}, 5e-6);
    }
  }
}

TEST(CpuAttention, AttentionIsTheSameForEveryThreadCount) {
  const Attrs attrs{{"causal", true}, {"scale", 0.25}};
  for (const int64_t group : {1, 3}) {  // heads that share keys
    for (const int64_t t : {3, 200}) {
      Tensors inputs{random({1, t, group, 32}, 31), random({1, 200, 1, 32}, 56),
                     random({1, 200, 1, 32}, 57)};
      const Tensors one = run("attention", inputs, attrs, backend_named("cpu"), 1);
      Tensors for_grad = inputs;
      for_grad.insert(for_grad.begin(), random(one[0].shape(), 32));
      for_grad.insert(for_grad.end(), {one[0], one[1]});
      const Tensors grads = run("attention_grad", for_grad, attrs, backend_named("cpu"), 1);
      for (int threads : {2, 3, 5, 8}) {
        const auto expect_same = [&](const Tensors& expected, const Tensors& again) {
          for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(to_doubles(expected[i]), to_doubles(again[i])) << threads;
          }
        };
        expect_same(one, run("attention", inputs, attrs, backend_named("cpu"), threads));
        expect_same(grads, run("attention_grad", for_grad, attrs, backend_named("cpu"), threads));
      }
    }
  }
}

}  // namespace
}  // namespace mstrain
