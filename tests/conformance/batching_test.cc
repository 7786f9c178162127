// The batched form of an operation against a loop over the samples, for every choice of inputs that are batched.
#include "core/ops/shape.h"
#include "core/transform/vmap.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

using BatchOfOp = OpTest;

constexpr int64_t kSize = 3;

void expect_loop(const Case& it, uint64_t subset) {
  const size_t count = it.sample.inputs.size();
  std::vector<Tensors> samples;  // by sample
  for (int64_t s = 0; s < kSize; ++s) {
    samples.push_back(inputs_of(it, static_cast<uint64_t>(s)));
  }
  BatchedLeaves batch;
  for (size_t i = 0; i < count; ++i) {
    const bool mapped = ((subset >> i) & 1U) != 0;
    Tensors parts;
    for (Tensors& sample : samples) {
      sample[i] = mapped ? sample[i] : samples[0][i];
      parts.push_back(sample[i]);
    }
    batch.add(std::to_string(i), mapped ? stack(parts, 0) : parts[0], mapped);
  }
  Tensors captures;
  const GraphPtr program = trace_program(
      batch.types, [&](std::span<const Tensor> in) { return run(it, in); }, &captures);
  const Tensors all = run_batched(*program, batch, captures);
  for (int64_t s = 0; s < kSize; ++s) {
    const Tensors& inputs = samples[static_cast<size_t>(s)];
    const Tensors expected = run(it, inputs);
    ASSERT_EQ(all.size(), expected.size());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].shape(), expected[i].shape().with_inserted(0, kSize));
      // The batched form may sum in another order.
      const Tolerance tolerance = tolerance_for(*it.op, expected[i].dtype(), inputs, expected);
      ASSERT_EQ(difference(select(all[i], 0, s), expected[i], tolerance), "")
          << "inputs " << fmt::format("{:b}", subset) << " batched, sample " << s << ", output "
          << i;
    }
  }
}

void expect_loops(const OpDef& op) {
  std::vector<Dtype> dtypes{Dtype::kF64, Dtype::kI32};
  if (long_tests() || !accepts(op.dtypes, Dtype::kF64)) {
    dtypes.assign(std::begin(kAllDtypes), std::end(kAllDtypes));
  }
  for (const Backend* backend : {backend_named("cpu"), backend_named("reference")}) {
    const ContextScope scope(context_of(backend));
    for (const Case& it : some(cases_of(op, dtypes), backend == backend_named("cpu") ? 14 : 5)) {
      SCOPED_TRACE(to_string(it));
      const size_t count = it.sample.inputs.size();
      const uint64_t all = (uint64_t{1} << count) - 1;
      for (uint64_t subset = 1; subset <= all; ++subset) {
        // Of many inputs: one, all but at most one, and some others.
        const uint64_t step = count <= 8 ? 7 : all / 19;
        const bool chosen =
            count <= 3 || (long_tests() && count <= 8) || std::popcount(subset) == 1 ||
            std::popcount(subset) + 1 >= static_cast<int>(count) || subset % step == 0;
        if (chosen) {
          expect_loop(it, subset);
        }
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

void expect_empty(const OpDef& op) {
  const ContextScope scope(context_of(backend_named("cpu")));
  const Dtype dtype = usual_dtype(op);
  for (const Case& it : some(cases_of(op, std::span(&dtype, 1)), 3)) {
    SCOPED_TRACE(to_string(it));
    BatchedLeaves batch;
    Types types;
    for (const Tensor& x : inputs_of(it)) {
      batch.add("x", copy(slice(expand_dims(x, 0), 0, 0, 0)), true);
      types.push_back(x.type());
    }
    Tensors captures;
    const GraphPtr program = trace_program(
        types, [&](std::span<const Tensor> in) { return run(it, in); }, &captures);
    for (const Tensor& result : run_batched(*program, batch, captures)) {
      EXPECT_EQ(result.dim(0), 0);
    }
  }
}

TEST_P(BatchOfOp, IsTheLoopOverSamples) {
  expect_loops(op());
  expect_empty(op());
}

MSTRAIN_FOR_OPS(BatchOfOp,
                [](const OpDef& op) { return has_samples(op) && op.kind != OpKind::kSource; });

}  // namespace
}  // namespace mstrain
