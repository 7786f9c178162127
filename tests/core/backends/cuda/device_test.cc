// The back end on a card, where there is one: every operation, programs and a network's step against the reference.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/backends/cuda/driver.h"
#include "core/ir/fallback.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/matmul.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/random_programs.h"

namespace mstrain::cuda {
namespace {

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = backend_named("cuda")->missing();
    if (!missing.empty()) {
      GTEST_SKIP() << missing;
    }
  }

  static Context on_card() {
    const Backend* const backend = backend_named("cuda");
    return {.backend = backend,
            .allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, backend->open())};
  }
  static Context on_host() {
    return {.backend = backend_named("reference"),
            .allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, host_device())};
  }
};

std::unique_ptr<Program> compiled(const Types& types,
                                  const std::function<Tensors(std::span<const Tensor>)>& f) {
  Tensors captures;
  return compile(*trace_program(types, f, &captures));
}

// So that all texts are compiled together.
void print_ahead(const Case& it) {
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
  if (const KernelEntry* const entry = usable_kernel(backend_named("cuda"), request)) {
    entry->prepare(request);
  }
}

TEST_F(CudaDevice, SamplesGiveWhatTheReferenceGives) {
  std::vector<Case> all;
  for (const OpDef* op : all_ops()) {
    if (op->among_ranks || !has_samples(*op)) {
      continue;
    }
    std::vector<Case> cases;
    for (const Case& it : cases_of(*op)) {
      if (is_small(it, 20000)) {
        cases.push_back(it);
      }
    }
    for (const Case& it : some(std::move(cases), op->name == "fused" ? 24 : 12)) {
      print_ahead(it);
      all.push_back(it);
    }
  }
  for (const Case& it : all) {
    SCOPED_TRACE(to_string(it));
    Tensors actual, expected, inputs;
    try {
      {
        const Context context = on_host();
        const ContextScope scope(context);
        inputs = inputs_of(it);
        expected = mstrain::run(it, inputs);
      }
      const Context context = on_card();
      const ContextScope scope(context);
      actual = mstrain::run(it, inputs_of(it));
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
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST_F(CudaDevice, ProgramsAndTheirGradientsGiveWhatTheReferenceGives) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomProgram program(seed, {});
    const auto run_on = [&](const Context& context, int level) {
      const ContextScope scope(context);
      Tensors inputs;
      for (const Tensor& input : program.inputs()) {
        const HostRead bytes(input);
        inputs.push_back(tensor_from_bytes(bytes.data(), input.type()));
      }
      return compile(*gradient_graph(program), {.level = level})->run(inputs);
    };
    const Tensors actual = run_on(on_card(), 2);
    const Tensors expected = run_on(on_host(), 0);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      double scale = 1;
      for (double value : to_doubles(expected[i])) {
        scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
      }
      EXPECT_EQ(difference(actual[i], expected[i], {1e-9, scale}), "")
          << "seed " << seed << ", result " << i;
    }
  }
}

TEST_F(CudaDevice, AnIdOutsideIsAnErrorThatNamesIt) {
  const Context context = on_card();
  const ContextScope scope(context);
  const Tensor table = filled({Dtype::kF32, {4, 3}}, 1);
  const Tensor rows = embedding(table, vector({1, 7}, Dtype::kI32));
  try {
    to_doubles(rows);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gather: id 7 at position 1 is outside of [0, 4)");
  }
  EXPECT_EQ(to_doubles(embedding(table, vector({1, 2}, Dtype::kI32))).size(), 6U);
}

// Not to whoever waits for the memory alone.
TEST_F(CudaDevice, AnIdOutsideIsToldToWhoeverReadsTheResultWhenever) {
  const Context context = on_card();
  const ContextScope scope(context);
  const Tensor table = filled({Dtype::kF32, {4, 3}}, 1);
  const Tensor ids = vector({1, 7}, Dtype::kI32);
  const auto rows = [](const Tensor& x, const Tensor& i) { return embedding(x, i); };
  const auto is_told = testing::ThrowsMessage<Error>(testing::HasSubstr("id 7 at position 1"));
  {
    const Tensor of_program = jit(rows)(table, ids);  // which is gone
    EXPECT_THAT([&] { to_doubles(of_program); }, is_told);
    EXPECT_THAT([&] { to_doubles(of_program); }, is_told) << "the second time";
    EXPECT_THAT([&] { to_doubles(of_program + of_program); }, is_told);
  }
  {
    const Tensor kept = rows(table, ids);
    rows(table, ids);  // whose memory goes round
    context.allocator->trim();
    EXPECT_THAT([&] { to_doubles(kept); }, is_told);
  }
  {
    const auto program = compiled({table.type(), ids.type()}, [&](std::span<const Tensor> in) {
      return Tensors{rows(in[0], in[1])};
    });
    const Tensors results = program->run({table, ids});
    program->profile(nullptr);
    EXPECT_THAT([&] { to_doubles(results[0]); }, is_told);
  }
  EXPECT_EQ(to_doubles(table).size(), 12U);
}

// What only a card does that is none (twin.cc).
class CudaTwin : public CudaDevice {
 protected:
  void SetUp() override {
    CudaDevice::SetUp();
    void* const twin = dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
    fail = twin == nullptr ? nullptr : reinterpret_cast<void (*)(int)>(dlsym(twin, "twin_fail"));
    if (fail == nullptr) {
      GTEST_SKIP() << "no twin of a card";
    }
    pass = reinterpret_cast<void (*)(int64_t)>(dlsym(twin, "twin_pass"));
  }

  void (*fail)(int result) = nullptr;
  void (*pass)(int64_t nanoseconds) = nullptr;
};

TEST_F(CudaTwin, OfACardThatFailsEverybodyIsToldAndNothingEndsTheProcess) {
  constexpr int kIllegalAddress = 700;
  {
    const Context context = on_card();
    const ContextScope scope(context);
    const Tensor x = filled({Dtype::kF32, {4}}, 1);
    EXPECT_EQ(to_doubles(x + x)[0], 2);
    fail(kIllegalAddress);
    EXPECT_THAT([&] { x + x; }, testing::ThrowsMessage<Error>(testing::HasSubstr("700")));
    EXPECT_THAT([&] { to_doubles(x); }, testing::ThrowsMessage<Error>(testing::HasSubstr("700")));
  }
  fail(0);
}

// Times between events have 24 bits.
TEST_F(CudaTwin, TimesOfKernelsAreFineHoursAfterTheCardWasOpened) {
  const Context context = on_card();
  const ContextScope scope(context);
  const Tensor x = filled({Dtype::kF32, {16, 16}}, 1);
  const auto program = compiled(
      {x.type()}, [](std::span<const Tensor> in) { return Tensors{matmul(in[0], in[0])}; });
  program->run({x});
  std::vector<KernelTime> times;
  program->profile(&times);
  pass(int64_t{10} * 3600 * 1'000'000'000);
  program->run({x});
  program->profile(nullptr);
  pass(0);
  ASSERT_EQ(times.size(), 1U);
  // Of the algorithm that the twin has.
  EXPECT_THAT(static_cast<double>(times[0].end - times[0].begin),
              testing::AnyOf(testing::DoubleNear(1e6, 1e3), testing::DoubleNear(5e5, 1e3)));
}

}  // namespace
}  // namespace mstrain::cuda
