#include "core/transform/recompute.h"

#include "core/exec/execute.h"
#include "core/ops/random.h"
#include "core/transform/vmap.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

Tensor block(const Tensor& x, const Tensor& w) { return x + tanh(matmul(sin(x), w)); }

// Three blocks, each plain or recomputed.
template <class Block>
auto network(const Block& f) {
  return [f](const std::pair<Tensor, Tensor>& p) {
    Tensor x = p.first;
    for (int i = 0; i < 3; ++i) {
      x = f(x, p.second);
    }
    return sum(x * x);
  };
}

const auto kPlain = network(block);
const auto kRecomputed = network(recompute(block));

std::pair<Tensor, Tensor> arguments() {
  return {random_tensor({3, 4}, 1), random_tensor({4, 4}, 2)};
}

TEST(Checkpoint, ValuesAndGradientsAreThoseOfTheFunctionBitForBit) {
  const auto both = [](const auto& f) {
    return [f](const std::pair<Tensor, Tensor>& p) { return value_and_grad(f)(p); };
  };
  const auto plain = in_both_modes(both(kPlain), arguments());
  const auto recomputed = in_both_modes(both(kRecomputed), arguments());
  expect_equal(recomputed.first, plain.first);
  expect_equal(recomputed.second.first, plain.second.first);
  expect_equal(recomputed.second.second, plain.second.second);
}

TEST(Checkpoint, SecondDerivativesAndForwardMode) {
  const auto p = arguments();
  const std::pair<Tensor, Tensor> v{random_tensor({3, 4}, 3), random_tensor({4, 4}, 4)};
  const auto product = [&](const auto& f) {
    return [&, f](const std::pair<Tensor, Tensor>& q) { return jvp(grad(f), q, v).second; };
  };
  const auto plain = in_both_modes(product(kPlain), p);
  const auto recomputed = in_both_modes(product(kRecomputed), p);
  expect_near(recomputed.first, plain.first, 1e-12);
  expect_near(recomputed.second, plain.second, 1e-12);
  const auto again = [](const auto& f) {
    return [f](const std::pair<Tensor, Tensor>& q) {
      return grad(
          [&](const std::pair<Tensor, Tensor>& r) { return sum(square(grad(f)(r).first)); })(q);
    };
  };
  expect_near(in_both_modes(again(kRecomputed), p).second, in_both_modes(again(kPlain), p).second,
              1e-12);
}

TEST(Checkpoint, DerivativesReachCapturedTensors) {
  const auto f = [](const Tensor& w) {
    const Tensor x = random_tensor({3, 4}, 5);
    return sum(recompute([&](const Tensor& t) { return block(t, w); })(x));
  };
  const auto plain = [](const Tensor& w) { return sum(block(random_tensor({3, 4}, 5), w)); };
  const Tensor w = random_tensor({4, 4}, 6);
  expect_equal(in_both_modes(grad(f), w), grad(plain)(w));
}

TEST(Checkpoint, NestsAndBatches) {
  const auto inner = recompute([](const Tensor& x) { return sin(x) * x; });
  const auto outer = recompute([&](const Tensor& x) { return sum(exp(inner(x))); });
  const auto plain = [](const Tensor& x) { return sum(exp(sin(x) * x)); };
  const Tensor x = random_tensor({5, 3}, 7);
  expect_equal(in_both_modes(grad(outer), x), grad(plain)(x));
  expect_near(in_both_modes(vmap(grad(outer)), x), vmap(grad(plain))(x), 1e-14);
}

TEST(Checkpoint, DropsTheSameElementsWhenItRunsAgain) {
  const Tensor key = rng_key(3);
  const auto f = [&](const Tensor& x) { return sum(square(dropout(x, 0.5, key))); };
  const Tensor x = random_tensor({64}, 8);
  expect_equal(in_both_modes(grad(recompute(f)), x), grad(f)(x));
}

TEST(Checkpoint, IntegersAndTreesPassThrough) {
  const Tensor ids = vector({2, 0, 1}, Dtype::kI32);
  const auto f = recompute([](const std::pair<Tensor, Tensor>& p) {
    return std::pair(p.first + 1, cast(p.first, Dtype::kF64) * p.second);
  });
  const auto [next, product] = in_both_modes(
      [&](const std::pair<Tensor, Tensor>& p) { return f(p); }, std::pair(ids, f64({1, 2, 3})));
  EXPECT_EQ(next.dtype(), Dtype::kI32);
  EXPECT_THAT(to_doubles(product), testing::ElementsAre(2, 0, 3));
}

// A chain of wide layers: what is kept between the passes is one value per block instead of one per operation.
TEST(Checkpoint, KeepsLessForTheBackwardPass) {
  const auto wide = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 8; ++i) {
      y = sin(y) * exp(cos(y));
    }
    return y;
  };
  const auto chain = [&](const auto& f) {
    return [f](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < 8; ++i) {
        y = f(y);
      }
      return sum(y);
    };
  };
  const auto saved = [](const auto& f, const Tensor& x) {
    Tensors captures;
    const GraphPtr graph = trace_program(
        std::array{x.type()}, [&](std::span<const Tensor> in) { return Tensors{grad(f)(in[0])}; },
        &captures);
    return compile(*graph)->memory().arena;
  };
  const Tensor x = random_tensor({4096}, 9);
  EXPECT_LT(saved(chain(recompute(wide)), x), saved(chain(wide), x) / 2);
}

}  // namespace
}  // namespace mstrain
