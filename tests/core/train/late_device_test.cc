// Runs on the device that runs late, in memory that the host cannot read, are those of the host bit for bit: weights,
// metrics, checkpoints, and what stops a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/runtime/deferred_device.h"
#include "core/train/profile.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

class LateDevice : public testing::Test {
 protected:
  LateDevice() {
    previous_ = set_log_sink([](LogLevel, std::string_view) {});
  }
  ~LateDevice() override { set_log_sink(previous_); }

  // f() computes on that device.
  template <class F>
  auto on(std::shared_ptr<Device> device, const F& f) {
    Context context;
    context.allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, std::move(device));
    const ContextScope scope(context);
    return f();
  }

  // Runs of a configuration that `change` made, on the host and late.
  template <class Change>
  void expect_equal_runs(const std::string& name, const Change& change,
                         const TrainData& data = small_data()) {
    const auto run = [&](const char* where) {
      TrainConfig config = small_config(folder_ / (name + where));
      change(config);
      run_small(config, real_files(), data);
      return config.run.directory();
    };
    const std::string expected = on(host_device(), [&] { return run("_host"); });
    const std::string late = on(make_deferred_device({}), [&] { return run("_late"); });
    SCOPED_TRACE(name);
    expect_same_run(expected, late, 20);
  }

  TemporaryFolder folder_;
  LogSink previous_;
};

TEST_F(LateDevice, RunsAreTheHosts) {
  expect_equal_runs("graph", [](TrainConfig&) {});
  expect_equal_runs("eager", [](TrainConfig& config) { config.run.execution = Execution::kEager; });
  expect_equal_runs("micro", [](TrainConfig& config) { config.batch.micro.value = 2; });
  expect_equal_runs("layers", [](TrainConfig& config) { config.log.layers = int64_t{3}; });
}

TEST_F(LateDevice, SkippedStepsAreTheHosts) {
  expect_equal_runs(
      "skip", [](TrainConfig& config) { config.optimizer.not_finite = NotFinite::kSkip; },
      poisoned_data({3, 11}));
}

TEST_F(LateDevice, AStepWithoutANumberIsNamedAsOnTheHost) {
  const auto message = [&](const char* name) {
    return message_of<Error>(
        [&] { run_small(small_config(folder_ / name), real_files(), poisoned_data({7})); });
  };
  const std::string expected = on(host_device(), [&] { return message("host"); });
  EXPECT_THAT(expected, HasSubstr("step 7"));
  EXPECT_EQ(on(make_deferred_device({}), [&] { return message("late"); }), expected);
}

// Two batches take turns: the next one comes while a step computes, and the trace shows it.
TEST_F(LateDevice, TheNextBatchIsCopiedWhileAStepComputes) {
  TrainConfig config = small_config(folder_ / "run");
  config.profile.steps = 8;
  config.profile.first = 2;
  config.eval.interval = NoneOr<int64_t>();
  on(make_deferred_device({.ahead = 0}), [&] { return run_small(config); });
  const std::string text = real_files().read(join_path(config.run.directory(), kProfileFile));
  std::vector<double> step_ends;
  std::vector<double> batches;  // when they were there
  const Json trace = Json::parse(text);
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == "step") {
      step_ends.push_back(event.at("ts").get<double>() + event.at("dur").get<double>());
    } else if (event.value("cat", "") == "copy" && event.at("name") == "to the device" &&
               event.at("args").at("bytes") == 8 * 4 * 4) {
      batches.push_back(event.at("ts").get<double>() + event.at("dur").get<double>());
    }
  }
  ASSERT_EQ(step_ends.size(), 8U);
  ASSERT_GE(batches.size(), 8U);
  int early = 0;
  for (size_t i = 1; i < step_ends.size(); ++i) {
    early += batches[i] < step_ends[i - 1] ? 1 : 0;
  }
  EXPECT_GT(early, 0);
}

TEST_F(LateDevice, ARunGoesOnWhereAnotherDeviceLeftIt) {
  const TrainConfig straight = small_config(folder_ / "straight");
  on(host_device(), [&] { return run_small(straight); });
  const TrainConfig config = small_config(folder_ / "stopped");
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 9 * 8; };
  on(make_deferred_device({}),
     [&] { return run_small(config, real_files(), small_data(stop_there), small_task(), &stop); });
  on(host_device(), [&] { return run_small(config); });
  expect_same_run(straight.run.directory(), config.run.directory(), 20);
}

}  // namespace
}  // namespace mstrain
