// Described devices: their files, and what plans for them keep to.
#include "core/train/run_device.h"

#include <gmock/gmock.h>

#include "core/base/rng.h"
#include "core/ir/fallback.h"
#include "core/train/planned_run.h"
#include "core/train/session.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kGood =
    "name: some device\n"
    "memory_gb: 2\n"
    "memory_gbps: 100\n"
    "peak_tflops: {fp32: 1, bf16: 4}\n"
    "link_gbps: 10\n";

DeviceDescription device_of(std::string_view text) {
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "device.yaml", text);
  return read_device(real_files(), folder / "device.yaml");
}

std::string with(std::string_view from, std::string_view to) {
  std::string text(kGood);
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Device, MistakesInItsFileNameLineKeyAndChoice) {
  EXPECT_EQ(device_of(kGood).peak_tflops.bf16, 4);
  const struct {
    const char *from, *to, *expected;
  } kCases[] = {
      {"memory_gb:", "memory_g:", "device.yaml:2: memory_g: unknown key; did you mean memory_gb?"},
      {"memory_gb: 2", "memory_gb: much", "device.yaml:2: memory_gb: expected a number > 0"},
      {"memory_gb: 2", "memory_gb: -2", "device.yaml:2: memory_gb: expected a number > 0"},
      {"memory_gbps: 100\n", "", "memory_gbps: required key is missing"},
      {"fp32: 1, ", "", "peak_tflops.fp32: required key is missing"},
      {"bf16: 4", "bf15: 4",
       "device.yaml:4: peak_tflops.bf15: unknown key; did you mean peak_tflops.bf16?"},
  };
  for (const auto& [from, to, expected] : kCases) {
    EXPECT_THAT(message_of<ConfigError>([&] { device_of(with(from, to)); }), HasSubstr(expected));
  }
  EXPECT_THAT(message_of<IoError>([] { read_device(real_files(), "none/device.yaml"); }),
              HasSubstr("none/device.yaml"));
  const TemporaryFolder folder;
  write_file_atomic(real_files(), folder / "h200.yaml", kGood);
  EXPECT_THAT(message_of<IoError>([&] { read_device(real_files(), folder / "h20.yaml"); }),
              HasSubstr("h200.yaml?"));
}

TEST(Device, FuzzedFilesAreErrorsOrDevices) {
  Rng rng(5);
  constexpr std::string_view kAlphabet = "[]{}:,-\n .0129eE+nulbfpxgm\xff";
  const TemporaryFolder folder;
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text(kGood);
    for (uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      text[rng.below(text.size())] = kAlphabet[rng.below(kAlphabet.size())];
    }
    SCOPED_TRACE(text);
    try {
      DeviceDescription device;
      read_config(parse_yaml(text, "fuzz"), device);
      ++read;
      EXPECT_GT(device.memory_gb, 0);
      EXPECT_GT(device.peak_tflops.fp32, 0);
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("fuzz:"));
    }
  }
  EXPECT_GT(read, 20);
}

TEST(Device, APlanForItHasItsTypesAndRatesAndNothingOfAnother) {
  const Backend* const backend = described_backend("other", device_of(kGood));
  EXPECT_FALSE(backend->computes);
  EXPECT_EQ(backend->memory_bytes, 2'000'000'000);
  const OpDef& op = *find_op("add");
  const Attrs none;
  const auto serves = [&](Dtype dtype) {
    const ViewType view = ViewType::dense({dtype, {4}});
    const ViewType in[] = {view, view};
    return usable_kernel(backend, {op, none, in, std::span(&view, 1)}) != nullptr;
  };
  EXPECT_TRUE(serves(Dtype::kF32));
  EXPECT_TRUE(serves(Dtype::kBF16));
  EXPECT_TRUE(serves(Dtype::kI64));
  EXPECT_FALSE(serves(Dtype::kF16));
  EXPECT_FALSE(serves(Dtype::kF64));

  const TrainTask task = small_task();
  const TrainConfig config = small_config("unused");
  Context context = make_context(config);
  const RunPlan here = plan_run(task, config, context, 0, true).plan;
  EXPECT_EQ(here.cost.seconds, 0);
  context.backend = backend;
  EXPECT_EQ(memory_limit(config.memory, context), 2'000'000'000);
  const PlannedRun planned = plan_run(task, config, context, 0, true);
  const RunPlan& there = planned.plan;
  EXPECT_EQ(there.device, "some device");
  EXPECT_EQ(there.parameters, here.parameters);
  EXPECT_EQ(there.cost.flops, here.cost.flops);
  EXPECT_EQ(there.step.inputs, here.step.inputs);
  // No kernel's workspace counts, and results lie where they do here.
  EXPECT_LE(there.step.arena, here.step.arena);
  EXPECT_EQ(there.step.saved, here.step.saved);
  EXPECT_EQ(there.step.transient, here.step.transient);
  // No shorter than all arithmetic, or all memory, at the rates that the file states.
  EXPECT_GE(there.cost.seconds, there.cost.bytes / 100e9 * 0.999);
  EXPECT_GE(there.cost.seconds, there.cost.flops / 4e12);
  EXPECT_THAT(plan_text(planned), HasSubstr(" bytes, other"));
}

// Of a back end that this program has, its kernels are planned with, although the device is not here.
TEST(Device, APlanForItHasTheKernelsOfItsBackEnd) {
  const TrainTask task = small_task();
  const TrainConfig config = small_config("unused");
  Context context = make_context(config);
  const RunPlan here = plan_run(task, config, context, 0, true).plan;
  context.backend = described_backend("cuda", device_of(kGood));
  const PlannedRun planned = plan_run(task, config, context, 0, true);
  const RunPlan& there = planned.plan;
  EXPECT_THAT(plan_text(planned), HasSubstr(" bytes, cuda"));
  EXPECT_EQ(there.parameters, here.parameters);
  EXPECT_EQ(there.step.inputs, here.step.inputs);
  EXPECT_EQ(there.step.saved, here.step.saved);
  EXPECT_NEAR(there.cost.flops, here.cost.flops, 0.1 * here.cost.flops);
  constexpr int64_t kOfTheLibrary = int64_t{32} << 20;
  EXPECT_GE(there.step.arena, kOfTheLibrary);
  EXPECT_LE(there.step.arena, kOfTheLibrary + 2 * here.step.arena);
}

TEST(Device, ARunOnOneThatIsNotHereIsRefused) {
  RunConfig config;
  check_run_device(config, YamlNode::map());
  config.device = "cuda";
  EXPECT_THAT(message_of<PlanError>([&] { check_run_device(config, YamlNode::map()); }),
              AllOf(HasSubstr("run.device: cuda does not run here ("),
                    HasSubstr("; --dry-run plans for one that run.device_description describes")));
  config.device = "auto";
  check_run_device(config, YamlNode::map());
  EXPECT_EQ(device_of(config), "cpu");
}

}  // namespace
}  // namespace mstrain
