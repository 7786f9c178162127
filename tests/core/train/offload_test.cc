// What a run keeps in the host's memory beside a card's, as it is planned: the runs themselves are tests of the card's twin.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/exec/execute.h"
#include "core/ops/elementwise.h"
#include "core/ops/offload.h"
#include "core/train/planned_run.h"
#include "core/train/run_device.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

constexpr int64_t kAmpleMemory = int64_t{1} << 40;

class Offloading : public testing::Test {
 protected:
  Offloading() {
    DeviceDescription device{.name = "card", .memory_gb = 1, .memory_gbps = 100};
    device.peak_tflops = {.fp64 = 1, .fp32 = 1, .bf16 = 1, .fp16 = 1};
    device.link_gbps = 1;
    context_ = make_context(config_);
    context_.backend = described_backend("cuda", device);
    config_.checkpoint.async = false;
    config_.run.device = "cuda";
    config_.run.device_description = "of the test";
  }

  PlannedRun planned() const {
    const ContextScope scope(context_);
    return plan_run(task_, config_, context_, kAmpleMemory, false, config_.batch.global);
  }

  TrainTask task_ = small_task();
  TrainConfig config_ = small_config("unused");
  Context context_;
};

TEST_F(Offloading, CountsTheOptimizersStateInTheHostsMemoryToTheByte) {
  const RunPlan beside = planned().plan;
  EXPECT_EQ(beside.host_total(), 0);
  config_.memory.offload.optimizer = Offload::kCpu;
  const RunPlan plan = planned().plan;
  const int64_t slots = plan.optimizer_bytes - plan.number_bytes;
  EXPECT_EQ(plan.optimizer_bytes, beside.optimizer_bytes);
  EXPECT_EQ(plan.optimizer_on_host, slots);
  EXPECT_EQ(plan.host_total(), slots);
  EXPECT_EQ(plan.step.inputs, beside.step.inputs - slots);
  EXPECT_EQ(plan.step.outputs, beside.step.outputs);
  EXPECT_EQ(plan.batch_bytes, beside.batch_bytes);
  EXPECT_EQ(plan.cost.link_bytes, 2 * static_cast<double>(slots));
  EXPECT_THAT(describe(plan, config_, kAmpleMemory), HasSubstr("memory of the host beside it"));
}

// How many bytes of `op` are between their beginning and the wait for them, at most.
int64_t most_under_way(const Plan& plan, const OpDef& op) {
  int64_t now = 0, most = 0;
  for (const PlanStep& step : plan.steps) {
    const PlanStep& begun =
        step.waits_for < 0 ? step : plan.steps[static_cast<size_t>(step.waits_for)];
    if (begun.op == &op && begun.begins) {
      now += (step.waits_for < 0 ? 1 : -1) * begun.outputs[0].view.type.bytes();
      most = std::max(most, now);
    }
  }
  return most;
}

TEST_F(Offloading, FetchesWhatComesNextUnderEachUpdateAndNoMore) {
  const ContextScope scope(context_);
  constexpr size_t kSlots = 8;
  constexpr int64_t kBytes = 256;
  Tensors captures;
  const GraphPtr graph = trace_program(
      Types(kSlots, {Dtype::kF32, {64}}),
      [](std::span<const Tensor> slots) {
        Tensors next;
        for (const Tensor& slot : slots) {
          next.push_back(stow(fetch(slot) * 2));
        }
        return next;
      },
      &captures);
  const auto program = compile(*graph, {.donated = std::vector<bool>(kSlots, true)});
  const Plan& plan = plan_of(*program);
  EXPECT_EQ(most_under_way(plan, fetch_op()), 2 * kBytes);  // what is needed now, and next
  EXPECT_EQ(most_under_way(plan, stow_op()), 2 * kBytes);
  EXPECT_LE(plan.arena_bytes, 4 * kBytes);
  for (size_t i = 0; i < kSlots; ++i) {
    EXPECT_EQ(plan.output_alias[i], static_cast<int>(i));
  }
  EXPECT_EQ(plan.memory.host, static_cast<int64_t>(kSlots) * kBytes);
  for (const PlanStep& step : plan.steps) {
    for (const PlanView& view : step.inputs) {
      EXPECT_EQ(plan.buffers[static_cast<size_t>(view.buffer)].host, step.op == &fetch_op());
    }
  }
}

TEST_F(Offloading, IsRefusedWhereThereIsNothingToOffloadTo) {
  config_.memory.offload.optimizer = Offload::kCpu;
  const auto message = [&] { return error_of([&] { check_train_config(config_, YamlNode()); }); };
  EXPECT_EQ(message(), "no error");
  config_.run.execution = Execution::kEager;
  EXPECT_THAT(message(), HasSubstr("memory.offload.optimizer: run.execution: eager has no plan"));
  config_.run.execution = Execution::kGraph;
  config_.run.device_description.reset();
  config_.run.device = "cpu";
  EXPECT_THAT(message(), HasSubstr("memory.offload.optimizer: run.device: cpu computes in the "
                                   "host's memory, where all of it lies already"));
  config_.run.device = "cuda";
  config_.memory.offload.activations = Offload::kCpu;
  config_.parallel.pipeline = 2;
  EXPECT_THAT(message(), HasSubstr("memory.offload.activations: the programs of a pipeline"));
}

}  // namespace
}  // namespace mstrain
