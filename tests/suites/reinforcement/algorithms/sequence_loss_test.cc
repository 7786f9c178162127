#include <gtest/gtest.h>

#include <cmath>

#include "core/mstrain.h"
#include "suites/reinforcement/algorithms/dqn.h"
#include "tests/suites/reinforcement/algorithms/by_hand.h"

namespace mstrain::reinforcement {
namespace {

constexpr size_t kUnits = 2, kRemembered = 3;  // of the GRU, sequences
constexpr int64_t kBurnIn = 1, kUnroll = 2, kNStep = 2;
constexpr size_t kLength = kBurnIn + kUnroll + kNStep - 1, kBehind = kLength - kBurnIn;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Numbers gru(const Params& p, const Numbers& x, const Numbers& h) {
  const Numbers a = layer(p, "memory.input", x), c = layer(p, "memory.state", h);
  Numbers out;
  for (size_t i = 0; i < kUnits; ++i) {
    const double r = sigmoid(a[i] + c[i]);
    const double z = sigmoid(a[kUnits + i] + c[kUnits + i]);
    const double n = std::tanh(a[2 * kUnits + i] + r * c[2 * kUnits + i]);
    out.push_back((1 - z) * n + z * h[i]);
  }
  return out;
}

// Sequences of observations [L], what follows each [R], and the rest as a memory of steps gives it.
struct Sequence {
  Numbers memory;
  std::vector<Numbers> observations, nexts;
  std::vector<bool> kept;
  std::vector<size_t> actions, last;
  Numbers rewards, rest;
  double weight = 1;
};

std::vector<Sequence> sequences() {
  Rng rng(7);
  std::vector<Sequence> out;
  for (size_t i = 0; i < kRemembered; ++i) {
    Sequence s;
    const auto draw = [&] { return static_cast<double>(static_cast<float>(rng.uniform(-1, 1))); };
    s.memory = {draw(), draw()};
    for (size_t t = 0; t < kLength; ++t) {
      s.observations.push_back({draw(), draw()});
      s.kept.push_back(t == 0 || (t + i) % 3 != 1);
    }
    for (size_t t = 0; t < kBehind; ++t) {
      s.nexts.push_back({draw(), draw()});
    }
    for (size_t u = 0; u < kUnroll; ++u) {
      s.actions.push_back((u + i) % 3);
      s.last.push_back(u + (u + i) % 2);
      s.rewards.push_back(draw());
      s.rest.push_back((u + 2 * i) % 3 == 0 ? 0 : 0.8);
    }
    s.weight = 1 - 0.25 * static_cast<double>(i);
    out.push_back(s);
  }
  return out;
}

// By time: value(sequence, time) of `times` of them, each of `width` numbers.
template <class T = float, class F>
Tensor by_time(const std::vector<Sequence>& all, int64_t times, const Shape& shape,
               const F& value) {
  std::vector<T> flat;
  for (size_t t = 0; t < static_cast<size_t>(times); ++t) {
    for (const Sequence& each : all) {
      for (const double number : value(each, t)) {
        flat.push_back(static_cast<T>(number));
      }
    }
  }
  return tensor<T>(flat, shape);
}

OffPolicyBatch batch_of(const std::vector<Sequence>& all) {
  const auto b = static_cast<int64_t>(all.size());
  const auto length = static_cast<int64_t>(kLength), rest = static_cast<int64_t>(kBehind);
  OffPolicyBatch out;
  const auto one = [](double number) { return Numbers{number}; };
  out.observation_bo = by_time(all, length, {length * b, 2},
                               [](const Sequence& s, size_t t) { return s.observations[t]; });
  out.next_observation_bo =
      by_time(all, rest, {rest * b, 2}, [](const Sequence& s, size_t t) { return s.nexts[t]; });
  out.action_bd = by_time(all, kUnroll, {kUnroll * b, 1}, [&](const Sequence& s, size_t t) {
    return one(static_cast<double>(s.actions[t]));
  });
  out.reward_b = by_time(all, kUnroll, {kUnroll * b},
                         [&](const Sequence& s, size_t t) { return one(s.rewards[t]); });
  out.discount_b = by_time(all, kUnroll, {kUnroll * b},
                           [&](const Sequence& s, size_t t) { return one(s.rest[t]); });
  out.weight_b = by_time(all, 1, {b}, [&](const Sequence& s, size_t) { return one(s.weight); });
  out.sequences.emplace();
  out.sequences->memory_bm = by_time(all, 1, {b, static_cast<int64_t>(kUnits)},
                                     [](const Sequence& s, size_t) { return s.memory; });
  out.sequences->kept_lb = by_time(all, length, {length, b}, [&](const Sequence& s, size_t t) {
    return one(s.kept[t] ? 1 : 0);
  });
  out.sequences->last_ub = by_time<int32_t>(
      all, kUnroll, {kUnroll, b},
      [&](const Sequence& s, size_t t) { return one(static_cast<double>(s.last[t])); });
  return out;
}

// What is remembered after each step.
std::vector<Numbers> memories(const Params& p, const Sequence& s) {
  std::vector<Numbers> out;
  Numbers h = s.memory;
  for (size_t t = 0; t < kLength; ++t) {
    h = gru(p, s.observations[t], s.kept[t] ? h : Numbers(kUnits));
    out.push_back(h);
  }
  return out;
}

size_t best(const Numbers& q) {
  return static_cast<size_t>(std::max_element(q.begin(), q.end()) - q.begin());
}

class SequenceLoss : public testing::Test {
 protected:
  SequenceLoss() { config_.burn_in = kBurnIn; }
  std::unique_ptr<OffPolicyModel> model() const {
    return config_.model(
        {.name = "x", .observation = Space::box(Shape{2}, -1, 1), .action = Space::discrete(3)},
        network_);
  }
  Dqn config_;
  NetworkConfig network_{.hidden = {}, .memory = kUnits};
};

TEST_F(SequenceLoss, OfDqnIsAsWrittenByHand) {
  const std::vector<Sequence> all = sequences();
  for (const bool twice : {false, true}) {
    config_.double_q = twice;
    const auto network = model();
    const Params p = numbers(network->specs(), 1), target = numbers(network->specs(), 2);
    const OffPolicyLoss loss = network->loss(p, target, batch_of(all));
    double expected = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const Sequence& s = all[i];
      const std::vector<Numbers> by_p = memories(p, s), by_target = memories(target, s);
      double greatest = 0, mean = 0;
      for (size_t u = 0; u < kUnroll; ++u) {
        const size_t end = kBurnIn + s.last[u];
        const Numbers q = layer(p, "q.head", by_p[kBurnIn + u]);
        const Numbers next_p = layer(p, "q.head", gru(p, s.nexts[s.last[u]], by_p[end]));
        const Numbers next_target =
            layer(target, "q.head", gru(target, s.nexts[s.last[u]], by_target[end]));
        const double error = q[s.actions[u]] - s.rewards[u] -
                             s.rest[u] * next_target[best(twice ? next_p : next_target)];
        const double size = std::abs(error);
        expected += s.weight * (size <= 1 ? 0.5 * size * size : size - 0.5) /
                    static_cast<double>(kUnroll * kRemembered);
        greatest = std::max(greatest, size);
        mean += size / kUnroll;
      }
      EXPECT_NEAR(to_vector<float>(loss.error_b)[i], 0.9 * greatest + 0.1 * mean, 1e-5);
    }
    EXPECT_NEAR(item(loss.loss.loss), expected, 1e-5);
  }
}

// A step that is burnt in changes what is remembered, and no gradient passes through it: the input weights of a number that is seen in
// it alone have none.
TEST_F(SequenceLoss, NothingIsLearnedFromStepsThatAreBurntIn) {
  std::vector<Sequence> all = sequences();
  for (Sequence& s : all) {
    std::fill(s.kept.begin(), s.kept.end(), true);
    for (size_t t = 0; t < kLength; ++t) {
      s.observations[t][1] = t < kBurnIn ? 0.7 : 0;
    }
    for (Numbers& next : s.nexts) {
      next[1] = 0;
    }
  }
  const auto gradient_of_second = [&](int64_t burn_in) {
    config_.burn_in = burn_in;
    const auto network = model();
    const Params p = numbers(network->specs(), 1), target = numbers(network->specs(), 2);
    OffPolicyBatch batch = batch_of(all);
    if (burn_in == 0) {  // the same steps, all of which are learned from
      const auto b = static_cast<int64_t>(all.size());
      const Tensor first = zeros({Dtype::kF32, {b, 2}});
      batch.next_observation_bo = concat(Tensors{first, batch.next_observation_bo}, 0);
      batch.sequences->last_ub = batch.sequences->last_ub + 1;
    }
    const Params gradients =
        grad([&](const Params& q) { return network->loss(q, target, batch).loss.loss; })(p);
    const auto values = to_vector<float>(*gradients.find("memory.input.weight"));
    double sum = 0;
    for (size_t j = 0; j < 3 * kUnits; ++j) {
      sum += std::abs(values[3 * kUnits + j]);
    }
    return sum;
  };
  EXPECT_EQ(gradient_of_second(1), 0);
  EXPECT_GT(gradient_of_second(0), 1e-3);
}

}  // namespace
}  // namespace mstrain::reinforcement
