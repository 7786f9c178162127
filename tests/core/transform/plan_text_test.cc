// Plans as text.
#include <gmock/gmock.h>

#include "core/exec/execute.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/transform/scan.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Compiled {
  std::unique_ptr<Program> program;
  const Plan& plan() const { return plan_of(*program); }
};

Compiled compiled(const Types& types, const std::function<Tensors(std::span<const Tensor>)>& f,
                  int threads = 1) {
  Context context = current_context();
  context.threads = threads;
  const ContextScope scope(context);
  Tensors captures;
  return {compile(*trace_program(types, f, &captures))};
}

const TensorType kMatrix{Dtype::kF32, {64, 64}};

Tensors two_products(std::span<const Tensor> x) {
  const NameScope scope("net");
  return {matmul(tanh(matmul(x[0], x[1])), x[1]), sum(x[0])};
}

TEST(PlanText, ShowsStepsBuffersAndFigures) {
  const std::string text = describe(compiled({kMatrix, kMatrix}, two_products).plan());
  EXPECT_THAT(text, AllOf(ContainsRegex("\nstep dot_general +2\n"), HasSubstr("\nFLOPs in a run"),
                          HasSubstr("\ninput 0 %0: f32[64, 64]\n"),
                          HasSubstr("transient, 16384 bytes, steps "), HasSubstr(" bytes, cpu"),
                          HasSubstr("  @net\n")));
}

TEST(PlanText, DigestsTellPlansApartAndNothingElse) {
  const auto digest = [](const Compiled& program) { return summary(program.plan()).substr(0, 61); };
  const std::string one = digest(compiled({kMatrix, kMatrix}, two_products));
  EXPECT_THAT(one, testing::StartsWith("digest "));
  EXPECT_EQ(digest(compiled({kMatrix, kMatrix}, two_products)), one);
  EXPECT_EQ(digest(compiled({kMatrix, kMatrix}, two_products, 2)), one);
  const TensorType larger{Dtype::kF32, {64, 65}};
  EXPECT_NE(digest(compiled({kMatrix, larger},
                            [](std::span<const Tensor> x) {
                              return Tensors{matmul(tanh(matmul(x[0], x[0])), x[1]), sum(x[0])};
                            })),
            one);
  EXPECT_NE(digest(compiled({kMatrix, kMatrix},
                            [](std::span<const Tensor> x) {
                              const NameScope scope("net");
                              return Tensors{matmul(exp(matmul(x[0], x[1])), x[1]), sum(x[0])};
                            })),
            one);
}

TEST(PlanText, LoopsShowTheirBodies) {
  const auto loop = [](std::span<const Tensor> x) {
    const auto [carry, ys] = scan(
        [&](const Tensor& carry, const Tensor& row) {
          const NameScope scope("cell");
          const Tensor next = tanh(carry + row);
          return std::pair(next, next);
        },
        x[1], x[0]);
    return Tensors{carry, ys};
  };
  const Compiled program = compiled({kMatrix, {Dtype::kF32, {64}}}, loop);
  const std::string text = describe(program.plan());
  EXPECT_THAT(text, AllOf(HasSubstr("\n  body\n    input 0 %0: f32[64]\n"), HasSubstr("@cell"),
                          Not(HasSubstr("body=graph"))));
  EXPECT_THAT(text, ContainsRegex("\nstep scan +1\n"));
  // A kernel of the body runs once for each of the 64 rows.
  const auto kernels = [&] {
    const std::string key = "\nkernels in a run";
    return std::stoll(text.substr(text.find(key) + key.size()));
  }();
  EXPECT_GE(kernels, 64);
}

}  // namespace
}  // namespace mstrain
