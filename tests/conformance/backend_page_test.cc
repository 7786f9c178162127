// The back end of docs/adding_a_backend.md: the whole table of operations runs on it, by its own kernels and by those of the one
// that it falls back on, which plans and warnings say.
#include <gmock/gmock.h>

#include "core/base/log.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/tensor/jit.h"
#include "docs/adding_a_backend.inc"
#include "tests/conformance/cases.h"
#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;

const Backend* plain_backend() {
  static const Backend& it = plain::add_backend_plain(*backend_named("reference"));
  return &it;
}

using PlainOp = OpTest;

TEST_P(PlainOp, GivesWhatTheReferenceGives) {
  const LogSink before = set_log_sink([](LogLevel, std::string_view) {});  // of what falls back
  for (const Case& it : some(cases_of(op()), 6)) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    const auto on = [&](const Backend* backend, const auto& how) {
      const ContextScope scope(context_of(backend));
      return how();
    };
    const Tensors expected = on(backend_named("reference"), [&] { return run(it, inputs); });
    const auto compare = [&](const Tensors& actual) {
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const Dtype dtype = compared_dtype(it, expected[i].dtype());
        EXPECT_EQ(difference(actual[i], expected[i], tolerance_for(op(), dtype, inputs, expected)),
                  "");
      }
    };
    compare(on(plain_backend(), [&] { return run(it, inputs); }));
    compare(on(plain_backend(), [&] { return run_jitted(it, inputs, 2); }));
  }
  set_log_sink(before);
}

MSTRAIN_FOR_OPS(PlainOp, has_samples);

// The table of the page under another name, so that nothing was told of it yet.
Backend& another(const char* name) {
  Backend copied = *plain_backend();
  copied.name = name;
  return add_backend(std::move(copied));
}

// sort(exp(x) + x) of f32 [4].
std::string plan_for(const Backend* backend) {
  const ContextScope scope(context_of(backend));
  const TensorType type{Dtype::kF32, {4}};
  Tensors captures;
  const GraphPtr graph = trace_program(
      std::span(&type, 1),
      [](std::span<const Tensor> x) { return Tensors{sort(exp(x[0]) + x[0])}; }, &captures);
  return compile(*graph)->describe();
}

TEST(BackendPage, PlansAndOneWarningSayWhatTheFallbackRuns) {
  const Backend* const backend = &another("plain again");
  std::vector<std::string> told;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view message) { told.emplace_back(message); });
  const std::string plan = plan_for(backend);
  EXPECT_EQ(plan_for(backend), plan);
  set_log_sink(before);
  EXPECT_THAT(told, ElementsAre("sort: the plain again backend has no kernel for f32; the "
                                "reference, which is slow, runs it"));
  EXPECT_THAT(plan, AllOf(ContainsRegex("exp[^\n]* bytes, plain again"),
                          ContainsRegex("add[^\n]* bytes, plain again"),
                          ContainsRegex("sort[^\n]* bytes, reference")));
}

TEST(BackendPage, WithoutAFallbackWhatHasNoKernelIsAnError) {
  Backend& backend = another("plain alone");
  backend.fallback = nullptr;
  EXPECT_EQ(error_of([&] { plan_for(&backend); }),
            "sort: the plain alone back end has no kernel for f32, and leaves nothing to another");
}

TEST(Backends, AreKnownByNamesThatMistakesAreToldOf) {
  EXPECT_EQ(backend_named("cpu"), default_backend());
  EXPECT_EQ(find_backend("cpv"), nullptr);
  EXPECT_EQ(error_of([] { backend_named("cpv"); }),
            "there is no back end called cpv; did you mean cpu?");
  EXPECT_EQ(error_of([] { add_backend({.name = "cpu"}); }), "there are two back ends called cpu");
}

// 2 GFLOP on 1 MB, at 1 TFLOP/s of f32, 4 of bf16 and 1 GB/s.
TEST(Backends, AKernelTakesAsLongAsItsArithmeticOrItsMemory) {
  BackendRates rates{.bytes = 1e9};
  rates.flops[static_cast<size_t>(Dtype::kF32)] = 1e12;
  rates.flops[static_cast<size_t>(Dtype::kBF16)] = 4e12;
  const auto seconds = [&](double flops, std::vector<Dtype> operands) {
    return seconds_of(rates, {.flops = flops, .bytes = 1e6}, operands);
  };
  EXPECT_DOUBLE_EQ(seconds(2e9, {Dtype::kF32, Dtype::kF32}), 2e-3);
  EXPECT_DOUBLE_EQ(seconds(8e9, {Dtype::kI32, Dtype::kBF16}), 2e-3);
  EXPECT_DOUBLE_EQ(seconds(5e8, {Dtype::kBF16}), 1e-3);  // memory
}

}  // namespace
}  // namespace mstrain
