// Groups as CUDA text, run by the emulator, against the reference back end.
#include <gtest/gtest.h>

#include <cmath>

#include "core/backends/cuda/group.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/matmul.h"
#include "core/ops/norm.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "core/ops/statistics.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/random_programs.h"
#include "tests/core/backends/cuda/emulated.h"

namespace mstrain::cuda {
namespace {

void expect_close(const Tensors& actual, const Tensors& expected, double tolerance,
                  std::string_view what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    double scale = 1;
    for (double value : to_doubles(expected[i])) {
      scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
    }
    EXPECT_EQ(difference(actual[i], expected[i], {tolerance, scale}), "")
        << what << ", result " << i;
  }
}

// What a sample's kernel is prepared for; none where it is no group.
bool prepare(const Case& it) {
  Types types;
  std::vector<ViewType> in, out;
  for (const SampleInput& input : it.sample.inputs) {
    types.push_back(input.type);
    in.push_back(ViewType::dense(input.type));
  }
  for (const TensorType& type : it.op->infer(types, it.sample.attrs)) {
    out.push_back(ViewType::dense(type));
  }
  const KernelRequest request{*it.op, it.sample.attrs, in, out};
  const KernelEntry* const entry = find_kernel(emulated_backend(), *it.op);
  if (entry == nullptr || !entry->supports(request)) {
    return false;
  }
  entry->prepare(request);
  return true;
}

TEST(CudaGroups, SamplesGiveWhatTheReferenceGives) {
  std::vector<Case> prepared;
  for (const OpDef* op : all_ops()) {
    std::vector<Case> cases;
    for (const Case& it : has_samples(*op) ? cases_of(*op) : std::vector<Case>()) {
      if (is_small(it, 3000)) {
        cases.push_back(it);
      }
    }
    for (const Case& it : some(std::move(cases), op->name == "fused" ? 24 : 3)) {
      if (prepare(it)) {
        prepared.push_back(it);
      }
    }
  }
  EXPECT_GE(prepared.size(), kSanitized ? 150U : 250U);
  for (const Case& it : prepared) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    const auto on = [&](const Backend* backend) {
      const ContextScope scope(context_of(backend));
      return mstrain::run(it, inputs);
    };
    const Tensors expected = on(backend_named("reference"));
    const int64_t before = launches();
    const Tensors actual = on(emulated_backend());
    EXPECT_TRUE(launches() > before || it.op->alias != nullptr);  // which may take no kernel
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      Dtype dtype = expected[i].dtype();
      if (is_floating(dtype) && is_floating(it.dtype) && size_of(it.dtype) < size_of(dtype)) {
        dtype = it.op->name == "cast" ? dtype : Dtype::kF32;
      }
      EXPECT_EQ(difference(actual[i], expected[i],
                           tolerance_for(*it.op, compared_dtype(it, dtype), inputs, expected)),
                "")
          << "output " << i;
    }
  }
}

struct Planned {
  GraphPtr graph;
  Tensors inputs;
  std::unique_ptr<Program> program;
};

Planned plan(const GraphPtr& graph, const Tensors& inputs) {
  const ContextScope scope(context_of(emulated_backend()));
  return {graph, inputs, compile(*graph)};
}

void expect_agrees(const Planned& planned, double tolerance, std::string_view what) {
  const auto run_on = [&](const Backend* backend, Program& program) {
    const ContextScope scope(context_of(backend));
    return program.run(planned.inputs);
  };
  const Tensors actual = run_on(emulated_backend(), *planned.program);
  const Tensors again = run_on(emulated_backend(), *planned.program);
  const Backend* const reference = backend_named("reference");
  const ContextScope scope(context_of(reference));
  const Tensors expected = run_on(reference, *compile(*planned.graph, {.level = 0}));
  expect_close(actual, expected, tolerance, what);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(bit_difference(again[i], actual[i]), "") << what << ": a second run differs";
  }
}

TEST(CudaGroups, FusedProgramsAndTheirGradientsGiveWhatTheReferenceGives) {
  std::vector<Planned> all;
  const int64_t count = repetitions(6, 100);
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(count); ++seed) {
    const RandomProgram program(seed, {});
    all.push_back(plan(gradient_graph(program), program.inputs()));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    expect_agrees(all[i], 1e-9, fmt::format("program of seed {}", i + 1));
  }
}

// Two layers with what stands around products in a network; its loss, and all that it is made of after a clipped step down.
Planned step_of_a_network(Dtype dtype, int64_t rows, int64_t n) {
  const auto type = [&](const Shape& shape) { return TensorType{dtype, shape}; };
  const Types types{type({rows, n}), type({n, 2 * n}), type({2 * n}),  type({2 * n, n}),
                    type({n}),       type({n}),        type({rows, n})};
  Tensors inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    const ContextScope scope(context_of(backend_named("reference")));
    inputs.push_back(cast(random_like(filled({Dtype::kF32, types[i].shape}, 0), i + 1), dtype));
  }
  Tensors captures;
  const GraphPtr graph = trace_program(
      types,
      [](std::span<const Tensor> in) {
        const Tensors x(in.begin(), in.end());
        const auto loss_of = [](const Tensors& p) {
          const Tensor h = layer_norm(p[0], p[4], p[5]);
          const Tensor inner = gelu_tanh(matmul(h, p[1]) + p[2]);
          const Tensor stream = p[0] + matmul(inner, p[3]);
          const Tensor logs = log_softmax(rms_norm(stream, p[4]) * 4);
          return mean(cast(logs * softmax(p[6]), Dtype::kF32));
        };
        const auto [loss, gradients] = value_and_grad(loss_of)(x);
        Tensor squares = filled(TensorType{Dtype::kF32, {}}, 0);
        for (const Tensor& gradient : gradients) {
          squares = squares + sum(square(cast(gradient, Dtype::kF32)));
        }
        const Tensor scale = minimum(rsqrt(squares), 1);
        Tensors results{loss};
        for (size_t i = 0; i < gradients.size(); ++i) {
          results.push_back(x[i] - gradients[i] * cast(scale, gradients[i].dtype()) * 0.5);
        }
        return results;
      },
      &captures);
  return plan(graph, inputs);
}

TEST(CudaGroups, AStepOfANetworkGivesWhatTheReferenceGives) {
  const Planned f32 = step_of_a_network(Dtype::kF32, 13, 40);
  const Planned bf16 = step_of_a_network(Dtype::kBF16, 6, 24);
  const Planned many =
      step_of_a_network(Dtype::kF32, 300, 8);  // rows: more than blocks that make sums
  EXPECT_NE(f32.program->describe().find("layer_norm_grad"), std::string::npos);
  EXPECT_NE(f32.program->describe().find("sm_80 on the cpu"), std::string::npos);
  expect_agrees(f32, 2e-5, "f32");
  expect_agrees(bf16, 4e-2, "bf16");
  expect_agrees(many, 2e-5, "many rows");
}

// Threads that keep several columns of a row: 16 registers of 1,024 threads at most.
// Else every parameter that is drawn or rounded would have kernels of its own to compile.
TEST(CudaGroups, DrawsOfDifferentSitesShareTheirCode) {
  const OpDef& op = *find_op("random");
  const Attrs attrs = cases_of(op).front().sample.attrs;
  const ViewType key = ViewType::dense({Dtype::kU32, {2}});
  const auto text_at = [&](int64_t site) {
    const Attrs there = attrs.with("site", site).with("shape", Shape{12});
    const ViewType out = ViewType::dense(op.infer(Types{key.type}, there)[0]);
    const TextEntry& entry = *std::ranges::find(text_entries(), op.name, &TextEntry::op);
    return entry.print({op, there, std::span(&key, 1), std::span(&out, 1)});
  };
  EXPECT_EQ(text_at(3).text, text_at(4).text);
  EXPECT_NE(text_at(3).number, text_at(4).number);
}

TEST(CudaGroups, LongRowsAreKeptInRegisters) {
  std::vector<Planned> all;
  for (const Shape& shape : {Shape{2, 300}, Shape{2, 5000}}) {
    const TensorType type{Dtype::kF32, shape};
    Tensors captures;
    const GraphPtr graph = trace_program(
        std::span(&type, 1),
        [](std::span<const Tensor> x) {
          const Tensor y = softmax(x[0] * 3);
          return Tensors{y, sum(y, {0}), max(x[0], {1}), sum(y * y)};
        },
        &captures);
    all.push_back(plan(graph, {random_like(filled(type, 0), 5)}));
  }
  for (const Planned& planned : all) {
    expect_agrees(planned, 1e-6, "a long row");
  }
}

TEST(CudaGroups, ViewsAreReadWhereTheyLie) {
  std::vector<Planned> all;
  const TensorType type{Dtype::kF32, {6, 5, 4}};
  using Body = Tensors (*)(std::span<const Tensor>);
  for (const Body body :
       std::initializer_list<Body>{[](std::span<const Tensor> x) {
                                     return Tensors{exp(transpose(x[0], {2, 0, 1})) + 1};
                                   },
                                   [](std::span<const Tensor> x) {
                                     return Tensors{softmax(transpose(x[0], {2, 0, 1}) * 2)};
                                   },
                                   [](std::span<const Tensor> x) {
                                     return Tensors{flip(x[0], {0, 2}) * x[0] +
                                                    broadcast_to(slice(x[0], 1, 2, 3), {6, 5, 4})};
                                   },
                                   [](std::span<const Tensor> x) {
                                     const Tensor y = slice(x[0], 2, 0, 4, 2) -
                                                      broadcast_to(slice(x[0], 2, 3, 4), {6, 5, 2});
                                     return Tensors{y / sum(y * y, {1, 2}, true), sum(y, {0})};
                                   }}) {
    Tensors captures;
    all.push_back(plan(trace_program(std::span(&type, 1), body, &captures),
                       {random_like(filled(type, 0), 9)}));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    expect_agrees(all[i], 1e-6, fmt::format("program {}", i));
  }
}

TEST(CudaGroups, MatricesOfBytesAreTurned) {
  for (const auto& [rows, columns] : {std::pair(80, 144), {16, 64}, {128, 48}}) {
    const Tensor x = cast(iota({rows * columns}, 0), Dtype::kU8);
    const auto turned = [&] { return copy(transpose(reshape(x, {rows, columns}), {1, 0})); };
    const auto run_on = [&](const Backend* backend) {
      const ContextScope scope(context_of(backend));
      return to_doubles(turned());
    };
    const int64_t before = launches();
    EXPECT_EQ(run_on(emulated_backend()), run_on(backend_named("reference")));
    EXPECT_GT(launches(), before);
  }
}

// More rows than the teams of all blocks have at a time, and a number that no block's teams divide.
TEST(CudaGroups, RowsOfManyBlocksAreSummedUp) {
  std::vector<Planned> all;
  for (const bool normed : {true, false}) {  // by teams of several warps, and of one
    const int64_t rows = normed ? 1101 : 3301, n = normed ? 1030 : 40;
    const Types types{{Dtype::kF32, {rows, n}}, {Dtype::kF32, {n}}};
    Tensors inputs;
    for (const TensorType& type : types) {
      inputs.push_back(random_like(filled(type, 0), 3));
    }
    Tensors captures;
    const GraphPtr graph = trace_program(
        types,
        [normed](std::span<const Tensor> x) {
          const Tensor y = normed ? rms_norm(x[0], x[1]) : x[0] * exp(x[0]);
          return Tensors{y * y, sum(y, {0}), sum(y * y)};
        },
        &captures);
    all.push_back(plan(graph, inputs));
  }
  for (const Planned& planned : all) {
    expect_agrees(planned, 1e-4, "many rows");
  }
}

// Rows that few positions, many, and none add to: within a piece of them, over several, in one chunk that is sorted and in more.
TEST(CudaGroups, RowsTakeWhatAllPositionsBring) {
  std::vector<Planned> all;
  for (const int64_t count : {1, 90, 2500}) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<int32_t>(i % 3 == 0 ? 5 : i * i % 29));
    }
    const auto add = [&](const Shape& shape, const Shape& updates, auto body) {
      const Types types{{Dtype::kF32, shape}, {Dtype::kI32, {count}}, {Dtype::kF32, updates}};
      Tensors captures;
      const GraphPtr graph = trace_program(types, body, &captures);
      all.push_back(plan(graph, {random_like(filled(types[0], 0), 1),
                                 tensor(std::span<const int32_t>(ids), {count}),
                                 random_like(filled(types[2], 0), 2)}));
    };
    add({30, 33}, {count, 33}, [](std::span<const Tensor> x) {
      return Tensors{scatter_add(x[0], x[1], x[2]), scatter_set(x[0], x[1], x[2])};
    });
    add({2, 30, 5}, {2, count, 5},
        [](std::span<const Tensor> x) { return Tensors{scatter_add(x[0] * 2, x[1], x[2], 1)}; });
  }
  {
    const MostBlocks few(2);  // before any others leave what these do not
    for (size_t i = 0; i < all.size(); ++i) {
      expect_agrees(all[i], 1e-5, fmt::format("program {} in two blocks", i));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    expect_agrees(all[i], 1e-5, fmt::format("program {}", i));
  }
}

}  // namespace
}  // namespace mstrain::cuda
