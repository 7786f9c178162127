// Values: the cpu backend against the reference for one and two threads, graph mode against eager mode, fast kernels of
// composites against their decompositions.
#include <cmath>
#include <limits>

#include "core/ir/backend.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "core/transform/vmap.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

using ValueOfOp = OpTest;

Tensors reference_of(const Case& it, const Tensors& inputs) {
  const ContextScope scope(context_of(backend_named("reference")));
  return run(it, inputs);
}

void expect_close(const Case& it, const Tensors& actual, const Tensors& inputs,
                  const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    // What was stored in 16 bits on the way is as good as that: a result of more bits has the type of its inputs.
    Dtype dtype = expected[i].dtype();
    if (is_floating(dtype) && is_floating(it.dtype) && size_of(it.dtype) < size_of(dtype)) {
      dtype = it.op->name == "cast" ? dtype : Dtype::kF32;
    }
    dtype = compared_dtype(it, dtype);
    ASSERT_EQ(difference(actual[i], expected[i], tolerance_for(*it.op, dtype, inputs, expected)),
              "")
        << "output " << i;
  }
}

void expect_cpu_agrees(const OpDef& op) {
  for (const Case& it : cases_of(op)) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    const Tensors expected = reference_of(it, inputs);
    for (int threads : {1, 2}) {
      const ContextScope scope(context_of(backend_named("cpu"), threads));
      const Tensors actual = run(it, inputs);
      expect_close(it, actual, inputs, expected);
      const Tensors again = run(it, inputs);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_EQ(bit_difference(again[i], actual[i]), "") << "a second run differs";
      }
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }
}

// Work enough for two threads: many samples at once, and one long dim.
void expect_same_for_both_teams(const std::function<Tensors()>& f, double relative, double scale) {
  const auto on = [&](const Backend* backend, int threads) {
    const ContextScope scope(context_of(backend, threads));
    return f();
  };
  const Tensors expected = on(backend_named("reference"), 1);
  for (int threads : {1, 2}) {
    const Tensors actual = on(backend_named("cpu"), threads);
    const Tensors again = on(backend_named("cpu"), threads);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Tolerance tolerance =
          is_floating(actual[i].dtype()) ? Tolerance{relative, scale} : Tolerance{};
      ASSERT_EQ(difference(actual[i], expected[i], tolerance), "")
          << threads << " threads, output " << i;
      ASSERT_EQ(bit_difference(again[i], actual[i]), "")
          << threads << " threads, a second run differs";
    }
  }
}

double greatest_of(const Tensors& tensors) {
  double result = 0;
  for (const Tensor& tensor : tensors) {
    for (double value : to_doubles(tensor)) {
      result = std::max(result, std::abs(value));
    }
  }
  return result;
}

int64_t largest(const Tensors& tensors) {
  int64_t elements = 1;
  for (const Tensor& tensor : tensors) {
    elements = std::max(elements, tensor.elements());
  }
  return elements;
}

void expect_many_samples(const OpDef& op) {
  constexpr int64_t kElements = 60000;
  const Dtype dtype = usual_dtype(op);
  for (const Case& it : some(cases_of(op, std::span(&dtype, 1)), 3)) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    const int64_t most = std::max(largest(inputs), largest(reference_of(it, inputs)));
    // Small inputs beside large ones are parameters, which the samples share.
    const int64_t size = kElements / most;
    BatchedLeaves batch;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool mapped = inputs.size() == 1 || inputs[i].elements() * 4 >= most;
      SampleInput input = it.sample.inputs[i];
      if (mapped) {
        input.type.shape = input.type.shape.with_inserted(0, size);
      }
      batch.add(std::to_string(i), inputs_of({it.op, it.dtype, it.index, {{input}, {}}})[0],
                mapped);
    }
    if (batch.size < 0) {
      continue;
    }
    Tensors captures;
    const GraphPtr program = trace_program(
        batch.types, [&](std::span<const Tensor> in) { return run(it, in); }, &captures);
    const double scale = std::max(1.0, greatest_of(reference_of(it, inputs)));
    expect_same_for_both_teams([&] { return run_batched(*program, batch, captures); }, 2e-5, scale);
  }
}

void expect_long_dim(const OpDef& op) {
  // A prime, so that no block fits. Some operations take the reference its square.
  constexpr int64_t kLength = kSanitized ? 8009 : 25013;
  const Dtype dtype = usual_dtype(op);
  for (Case it : cases_of(op, std::span(&dtype, 1))) {
    bool stretched = !it.sample.inputs.empty();
    Types types;
    for (SampleInput& input : it.sample.inputs) {
      stretched = stretched && input.type.shape.rank() <= 1 && input.type.elements() > 0;
      if (input.type.elements() > 1) {
        input.type.shape = {kLength};
      }
      types.push_back(input.type);
    }
    try {
      stretched = stretched && !op.infer(types, it.sample.attrs).empty() && types[0].elements() > 1;
    } catch (const ShapeError&) {
      stretched = false;  // the attributes fix the length
    }
    if (!stretched) {
      continue;
    }
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    // A sum of n random numbers has the size of √n of them.
    const double scale =
        std::sqrt(static_cast<double>(kLength)) * std::max(1.0, greatest_of(inputs));
    expect_same_for_both_teams([&] { return run(it, inputs); }, 1e-6, scale);
    break;
  }
}

void expect_graph_mode(const OpDef& op) {
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    const ContextScope scope(context_of(backend));
    for (const Case& it : some(cases_of(op), backend == backend_named("cpu") ? 80 : 20)) {
      SCOPED_TRACE(to_string(it));
      const Tensors inputs = inputs_of(it);
      const Tensors eager = run(it, inputs);
      for (int level : {0, 2}) {
        const Tensors graph = run_jitted(it, inputs, level);
        ASSERT_EQ(graph.size(), eager.size());
        for (size_t i = 0; i < eager.size(); ++i) {
          ASSERT_EQ(bit_difference(graph[i], eager[i]), "")
              << "level " << level << ", output " << i;
        }
      }
    }
  }
}

void expect_null_plan(const OpDef& op) {
  Context context = context_of(backend_named("cpu"));
  context.backend = backend_named("null");
  const ContextScope scope(context);
  for (const Case& it : some(cases_of(op), 8)) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    Types types;
    for (const Tensor& x : inputs) {
      types.push_back(x.type());
    }
    const Tensors outputs = run_jitted(it, inputs, 2);
    const Types expected = op.infer(types, it.sample.attrs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].type(), expected[i]);
    }
  }
}

TEST_P(ValueOfOp, IsThatOfTheReferenceForEveryThreadCountAndMode) {
  expect_cpu_agrees(op());
  expect_many_samples(op());
  expect_long_dim(op());
  expect_graph_mode(op());
  expect_null_plan(op());
}

MSTRAIN_FOR_OPS(ValueOfOp, has_samples);

using Composite = OpTest;

TEST_P(Composite, KernelAgreesWithItsDecomposition) {
  const ContextScope scope(context_of(backend_named("cpu")));
  for (const Case& it : cases_of(op())) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    const Tensors decomposed = op().decompose(it.sample.attrs, inputs);
    if (decomposed.empty()) {
      continue;
    }
    expect_close(it, run(it, inputs), inputs, decomposed);
    if (HasFatalFailure()) {
      return;
    }
  }
}

MSTRAIN_FOR_OPS(Composite,
                [](const OpDef& op) { return has_samples(op) && op.decompose != nullptr; });

using Elementwise = OpTest;

// Zeros of both signs, infinities, NaN and the ends of the range, in every combination.
TEST_P(Elementwise, SpecialNumbersAreThoseOfTheReference) {
  const ElementwiseOp& row = *elementwise_op(op());
  for (Dtype dtype : {Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    const double most = dtype == Dtype::kF64   ? std::numeric_limits<double>::max()
                        : dtype == Dtype::kF16 ? 65504.0
                        : dtype == Dtype::kF32 ? std::numeric_limits<float>::max()
                                               : 0x1.fep127;
    const double infinity = std::numeric_limits<double>::infinity();
    const std::vector<double> specials{0.0,
                                       -0.0,
                                       1,
                                       -1,
                                       0.5,
                                       -2.5,
                                       100,
                                       -100,
                                       most,
                                       -most,
                                       infinity,
                                       -infinity,
                                       std::numeric_limits<double>::quiet_NaN()};
    const size_t n = specials.size();
    const size_t count = row.arity == 1 ? n : n * n;
    std::vector<double> x(count);
    std::vector<double> y(count);
    for (size_t i = 0; i < count; ++i) {
      x[i] = specials[i % n];
      y[i] = specials[i / n];
    }
    const Shape shape{static_cast<int64_t>(count)};
    const auto make = [&](const std::vector<double>& values) {
      return cast(tensor<double>(values, shape), dtype);
    };
    Tensors inputs;
    if (row.arity > 2) {
      inputs.push_back(tensor<double>(x, shape) > 0);
    }
    for (int i = 0; i < std::min(row.arity, 2); ++i) {
      inputs.push_back(make(i == 0 ? x : y));
    }
    for (const Sample& sample : op().samples(dtype)) {
      if (!(sample.inputs[0].type.shape == Shape{7})) {
        continue;  // one sample for each set of attributes
      }
      const Case it{&op(), dtype, 0, sample};
      const Tensors expected = reference_of(it, inputs);
      const ContextScope scope(context_of(backend_named("cpu")));
      const Tensors actual = run(it, inputs);
      // Large finite results are compared relative to themselves.
      Tolerance tolerance = tolerance_for(op(), expected[0].dtype(), {}, expected);
      EXPECT_EQ(difference(actual[0], expected[0], tolerance), "")
          << name_of(dtype) << " -> " << name_of(expected[0].dtype()) << " of\n"
          << to_text(inputs[0]) << (row.arity > 1 ? "\n" + to_text(inputs[1]) : "");
    }
  }
}

MSTRAIN_FOR_OPS(Elementwise, [](const OpDef& op) {
  return elementwise_op(op) != nullptr && accepts(op.dtypes, Dtype::kF32);
});

}  // namespace
}  // namespace mstrain
