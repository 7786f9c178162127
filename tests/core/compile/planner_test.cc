// What takes memory in a plan, and what shares it.
#include "core/compile/plan.h"

#include "core/exec/execute.h"
#include "core/ops/build.h"
#include "core/ops/control.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/index.h"
#include "core/transform/accumulate.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using Function = std::function<Tensors(std::span<const Tensor>)>;

std::unique_ptr<Program> compiled(const Types& types, const Function& f,
                                  std::vector<bool> donated = {}) {
  Tensors captures;
  return compile(*trace_program(types, f, &captures), {.donated = std::move(donated)});
}

const PlanStep* find_step(const Plan& plan, std::string_view op) {
  for (const PlanStep& step : plan.steps) {
    if (step.op->name == op) {
      return &step;
    }
  }
  return nullptr;
}

// A constant whose node says its whole shape is one element as well.
TEST(Planner, AConstantTakesOneElement) {
  const TensorType matrix{Dtype::kF32, {512, 512}};
  const auto program = compiled({matrix}, [&](std::span<const Tensor> x) {
    const Attrs attrs{{"value", 3.0}, {"dtype", matrix.dtype}, {"shape", matrix.shape}};
    return Tensors{x[0] * apply(*find_op("full"), {}, attrs, SourceLocation::current())[0]};
  });
  EXPECT_LE(program->memory().arena, matrix.bytes() / 64);  // tiles of the kernel
  const Tensor x = cast(random_tensor(matrix.shape, 1), Dtype::kF32);
  expect_equal(program->run({x})[0], 3 * x);
}

TEST(Planner, CopiesOfResultsHaveCosts) {
  const TensorType matrix{Dtype::kF32, {64, 64}};
  const auto program = compiled({matrix}, [](std::span<const Tensor> x) { return Tensors{x[0]}; });
  const PlanStep* copy = find_step(plan_of(*program), "copy");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->cost.bytes, 2.0 * static_cast<double>(matrix.bytes()));
}

// The initial value of a carry that nothing else reads becomes the carry.
TEST(Planner, ALoopTakesOverWhatItStartsFrom) {
  const TensorType matrix{Dtype::kF32, {256, 256}};
  Tensors captures;
  const GraphPtr body = trace_program(
      {{matrix, TensorType{Dtype::kF32, {256}}}},
      [](std::span<const Tensor> x) { return Tensors{x[0] + x[1]}; }, &captures);
  const auto f = [&](const Tensor& x, const Tensor& rows) {
    const Tensor start = exp(x);
    return sum(scan_program(body, {{start}}, {}, {{rows}}, 7, false)[0], {0});
  };
  const auto program = compiled({matrix, {Dtype::kF32, {7, 256}}},
                                [&](std::span<const Tensor> x) { return Tensors{f(x[0], x[1])}; });
  const PlanStep* loop = find_step(plan_of(*program), "scan");
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->inputs[0].buffer, loop->outputs[0].buffer);
  EXPECT_LT(program->memory().arena, 2 * matrix.bytes());
  const Tensor x = cast(random_tensor(matrix.shape, 1), Dtype::kF32);
  const Tensor rows = cast(random_tensor({7, 256}, 2), Dtype::kF32);
  expect_near(program->run({x, rows})[0], f(x, rows), 1e-5);
  // A loop whose start is read again leaves it alone.
  const auto twice = [&](std::span<const Tensor> in) {
    const Tensor start = exp(in[0]);
    const Tensor end = scan_program(body, {{start}}, {}, {{in[1]}}, 7, false)[0];
    return Tensors{end - start};
  };
  const Tensors given{x, rows};
  expect_near(compiled({matrix, {Dtype::kF32, {7, 256}}}, twice)->run(given)[0], twice(given)[0],
              1e-5);
}

// What a program says that it needs is what it asks the allocator for, and nothing more on later runs.
// Where programs keep their places, as on CUDA, inputs that are given away are looked through twice for results to take them over.
TEST(Planner, OneResultTakesOverAnInput) {
  Backend backend = *default_backend();
  backend.limits.keeps_places = true;
  Context context = current_context();
  context.backend = &backend;
  const ContextScope scope(context);
  const TensorType row{Dtype::kF32, {4}};
  Tensors captures;
  const GraphPtr graph = trace_program(
      {{row, row}},
      [](std::span<const Tensor> x) {
        return Tensors{2 * exp(x[1]), sin(x[0])};
      },
      &captures);
  const auto program =
      compile(*graph, {.level = 0, .donated = {false, true}, .keeps_results = false});
  const std::vector<int>& taken = plan_of(*program).output_alias;
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), 1);
  const Tensor a = tensor<float>(std::vector<float>{1, 2, 3, 4}, {4});
  const auto given = [] { return tensor<float>(std::vector<float>{0, 1, 2, 3}, {4}); };
  const Tensors results = program->run({a, given()});
  expect_near(results[0], 2 * exp(given()), 1e-6);
  expect_near(results[1], sin(a), 1e-6);
}

TEST(Planner, ProgramsAllocateWhatTheyPlan) {
  const TensorType matrix{Dtype::kF32, {300, 200}};
  const auto f = [](std::span<const Tensor> x) {
    const auto gradient = grad([&](const Tensor& w) {
      const Tensor h = tanh(matmul(x[0], w, {.transpose_b = true}));
      return sum(sum(exp(matmul(h, x[0])), {0}) * 3);
    })(x[1]);
    return Tensors{x[1] - gradient, sum(gradient)};
  };
  for (const int level : {0, 1, 2}) {
    for (const bool donated : {false, true}) {
      Context context;
      const ContextScope scope(context);
      Tensors captures;
      const auto program = compile(*trace_program({{matrix, matrix}}, f, &captures),
                                   {.level = level, .donated = {false, donated}});
      const ProgramMemory planned = program->memory();
      const Tensor x = copy(cast(random_tensor(matrix.shape, 1), Dtype::kF32));
      Tensor w = copy(cast(random_tensor(matrix.shape, 2), Dtype::kF32));
      const auto given = [&] { return Tensors{x, donated ? std::move(w) : w}; };
      const MemoryStats before = context.allocator->stats();
      Tensors results = program->run(given());
      const int64_t matrix_bytes = donated ? 0 : matrix.bytes();
      EXPECT_EQ(planned.outputs, matrix_bytes + 4);
      const int64_t expected = Allocator::rounded(planned.arena) + Allocator::rounded(4) +
                               (donated ? 0 : Allocator::rounded(matrix_bytes));
      const MemoryStats after = context.allocator->stats();
      EXPECT_EQ(after.live_bytes - before.live_bytes, expected);
      EXPECT_EQ(after.allocations - before.allocations, donated ? 2 : 3);
      // Another run finds its memory.
      w = donated ? std::move(results[0]) : w;
      results.clear();
      program->run(given());
      EXPECT_EQ(context.allocator->stats().allocations, after.allocations);
    }
  }
}

// A matrix that is read by ids and by a product, over micro-batches: both gradients run into one place, beside the running sum,
// which meets them when they are whole, as ranks add them up.
TEST(Planner, GradientsOfATiedMatrixTakeOnePlaceBesideTheirSum) {
  constexpr int64_t kRows = 20000, kWidth = 64;  // larger than what products work in
  const TensorType matrix{Dtype::kF32, {kRows, kWidth}};
  const TensorType tokens{Dtype::kI32, {4, 16}};
  const auto f = [](const Tensor& w, const Tensor& ids) {
    const auto one = [&](const Tensor& micro) {
      return grad([&](const Tensor& weight) {
        const Tensor x = tanh(gather(weight, micro, 0));
        return cross_entropy(matmul(x, weight, {.transpose_b = true}), micro);
      })(w);
    };
    return accumulate(4, one)(ids);
  };
  Tensors captures;
  const auto program =
      compile(*trace_program(
                  {{matrix, tokens}},
                  [&](std::span<const Tensor> x) { return Tensors{f(x[0], x[1])}; }, &captures),
              {.packed_bytes = 0});
  EXPECT_EQ(program->memory().outputs, matrix.bytes());
  EXPECT_LT(program->memory().arena, matrix.bytes() * 3 / 2);
  const Tensor w = cast(random_tensor(matrix.shape, 1), Dtype::kF32);
  std::vector<int32_t> ids(64);
  Rng rng(2);
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(rng.below(kRows));
  }
  const Tensor batch = tensor<int32_t>(ids, tokens.shape);
  expect_near(program->run({w, batch})[0], f(w, batch), 1e-6);
}

// Two layers over micro-batches; each weight is read as it is by the forward pass, the second also transposed by the
// backward pass: three packs, whatever the number of micro-batches and of readers. Square, so that only the reading tells
// the last two apart.
TEST(Planner, MicroBatchesSharePackedWeights) {
  constexpr int64_t kWidth = 128;
  const TensorType matrix{Dtype::kF32, {kWidth, kWidth}};
  const TensorType rows{Dtype::kF32, {256, kWidth}};
  const auto f = [](const Tensor& w1, const Tensor& w2, const Tensor& x) {
    const auto one = [&](const Tensor& micro) {
      return grad([&](const std::vector<Tensor>& w) {
        return sum(square(matmul(tanh(matmul(micro, w[0])), w[1])) +
                   matmul(matmul(micro, stop_gradient(w[0])), stop_gradient(w[1])));
      })(std::vector<Tensor>{w1, w2});
    };
    return accumulate(4, one)(x);
  };
  Tensors captures;
  const GraphPtr graph = trace_program(
      {{matrix, matrix, rows}}, [&](std::span<const Tensor> x) { return f(x[0], x[1], x[2]); },
      &captures);
  const auto body_of = [](const Program& program) -> const Plan& {
    return *find_step(plan_of(program), "scan")->loop->body;
  };
  const auto packs_of = [&](const Program& program) { return body_of(program).packs.size(); };
  const auto program = compile(*graph);
  EXPECT_EQ(packs_of(*program), 3u);
  EXPECT_EQ(packs_of(*compile(*graph, {.packed_bytes = 2 * matrix.bytes()})), 2u);
  const auto none = compile(*graph, {.packed_bytes = 0});
  EXPECT_EQ(packs_of(*none), 0u);
  EXPECT_EQ(packs_of(*compile(*graph, {.level = 0})), 0u);
  EXPECT_EQ(body_of(*program).packed_bytes, 3 * matrix.bytes());
  EXPECT_EQ(program->describe().substr(0, program->describe().find("workspaces")),
            none->describe().substr(0, none->describe().find("workspaces")));
  // Other weights in the next run.
  for (uint64_t seed : {1, 2}) {
    const Tensor w1 = cast(random_tensor(matrix.shape, seed), Dtype::kF32);
    const Tensor w2 = cast(random_tensor(matrix.shape, seed + 10), Dtype::kF32);
    const Tensor x = cast(random_tensor(rows.shape, seed + 20), Dtype::kF32);
    const Tensors results = program->run({w1, w2, x});
    const std::vector<Tensor> expected = f(w1, w2, x);
    expect_near(results[0], expected[0], 1e-4);
    expect_near(results[1], expected[1], 1e-4);
  }
}

}  // namespace
}  // namespace mstrain
