// What the compiler makes of the parts of a step, and nothing of the names that people give.
#include <gmock/gmock.h>

#include "core/compile/plan.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/norm.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using testing::Contains;

// Loss and updated weights of a layer that its author calls `scope`; 16-bit activations are converted in both parts.
GraphPtr step_in(const std::string& scope) {
  const Types types{{Dtype::kBF16, {64, 32}}, {Dtype::kF32, {32, 32}}};
  Tensors captures;
  return trace_program(
      types,
      [&](std::span<const Tensor> in) {
        const Tensor w = mark(in[1]);
        Tensor loss;
        {
          const NameScope named(scope);
          const Tensor x = cast(tanh(in[0] * 0.5), Dtype::kF32);
          loss = sum(square(gelu(matmul(rms_norm(x, full({32}, 1)), w))));
        }
        const Tensor one = full({}, 1);
        const Tensor g = pull_back(std::array{loss}, std::array{one}, std::array{w})[0];
        const PartScope update(StepPart::kUpdate);
        const NameScope named(scope);
        return Tensors{loss, cast(in[1] - 0.1 * tanh(g), Dtype::kBF16)};
      },
      &captures);
}

// All that a plan says but scopes.
std::vector<std::string> facts_of(const Plan& plan) {
  std::vector<std::string> facts;
  for (const PlanStep& step : plan.steps) {
    facts.push_back(fmt::format("{} in {}", step.name, name_of(step.place.part)));
  }
  for (const PlanBuffer& buffer : plan.buffers) {
    facts.push_back(fmt::format("{} {} bytes, use {}, {} to {}", static_cast<int>(buffer.kind),
                                buffer.bytes, static_cast<int>(buffer.use), buffer.first,
                                buffer.last));
  }
  return facts;
}

TEST(Parts, AreNotReadOffTheNamesOfScopes) {
  for (const int level : {0, 2}) {
    const auto plan_in = [&](const std::string& scope) {
      return make_plan(*optimise(*step_in(scope), {.level = level}), {.level = level});
    };
    const Plan plain = plan_in("net");
    const std::vector<std::string> facts = facts_of(plain);
    for (const char* scope : {"", "backward", "backward.h.3", "optimizer", "update"}) {
      EXPECT_EQ(facts_of(plan_in(scope)), facts) << scope;
    }
    EXPECT_GT(plain.memory.saved, 0);
    EXPECT_GT(plain.memory.gradients, 0);
  }
}

TEST(Parts, StayWithWhatPassesMakeOfANode) {
  const Plan plan = make_plan(*optimise(*step_in("net"), {}), {});
  std::vector<StepPart> parts;
  for (const PlanStep& step : plan.steps) {
    parts.push_back(step.place.part);
  }
  EXPECT_THAT(parts, Contains(StepPart::kForward));
  EXPECT_THAT(parts, Contains(StepPart::kBackward));
  EXPECT_EQ(parts.back(), StepPart::kUpdate);
}

}  // namespace
}  // namespace mstrain
