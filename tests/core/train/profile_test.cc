// Profiles of real runs, and of figures that are known.
#include "core/train/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/log.h"
#include "core/exec/execute.h"
#include "core/train/machine.h"
#include "core/train/report.h"
#include "tests/amount.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Collects messages instead of printing them.
class Messages {
 public:
  Messages() {
    previous_ = set_log_sink([this](LogLevel, std::string_view text) {
      all_ += text;
      all_ += '\n';
    });
  }
  ~Messages() { set_log_sink(previous_); }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
  LogSink previous_;
};

TrainConfig profiled_config(const std::string& directory) {
  TrainConfig config = small_config(directory);
  config.profile.steps = 3;
  config.profile.first = 4;
  return config;
}

Json profile_of(const TrainConfig& config) {
  const std::string path = join_path(config.run.directory(), kProfileFile);
  return parse_json(real_files().read(path), path);
}

// The complete events of steps, or of kernels.
std::vector<Json> events_of(const Json& trace, std::string_view category) {
  std::vector<Json> out;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") != "copy" &&
        (event.at("cat") == "step") == (category == "step")) {
      out.push_back(event);
    }
  }
  return out;
}

double begin_of(const Json& event) { return event.at("ts").get<double>(); }
double end_of(const Json& event) { return begin_of(event) + event.at("dur").get<double>(); }
constexpr double kRounding = 1e-6;  // microseconds; files have three decimals, doubles more

TEST(Profile, HoldsTheStepsAskedForWithTheirKernelsInOrder) {
  const Messages messages;
  const TemporaryFolder folder;
  const TrainConfig config = profiled_config(folder / "run");
  run_small(config);
  EXPECT_THAT(messages.all(), HasSubstr("profile of steps 4 to 6: " + (folder / "run")));
  EXPECT_THAT(real_files().read(join_path(config.run.directory(), kProfileFile)),
              StartsWith("{\"traceEvents\":["));
  const Json trace = profile_of(config);
  const std::vector<Json> steps = events_of(trace, "step");
  const std::vector<Json> kernels = events_of(trace, "kernels");
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].at("name"), "step 4");
  EXPECT_EQ(steps[2].at("name"), "step 6");
  size_t next = 0;
  double last_end = 0;
  for (const Json& step : steps) {
    EXPECT_GE(begin_of(step), last_end - kRounding);
    double busy = 0;
    double previous = begin_of(step);
    for (size_t i = 0; i < step.at("args").at("kernels").get<size_t>(); ++i, ++next) {
      const Json& kernel = kernels.at(next);
      EXPECT_GE(begin_of(kernel), previous - kRounding);
      EXPECT_GE(end_of(kernel), begin_of(kernel));
      previous = end_of(kernel);
      busy += kernel.at("dur").get<double>();
    }
    EXPECT_LE(previous, end_of(step) + kRounding);
    EXPECT_LE(busy, step.at("dur").get<double>() + kRounding);
    last_end = end_of(step);
  }
  EXPECT_EQ(next, kernels.size());
}

TEST(Profile, NamesAndTotalsAreThoseOfThePlan) {
  const Messages messages;
  const TemporaryFolder folder;
  for (const int64_t micro : {8, 2}) {
    TrainConfig config = profiled_config(folder / ("run" + std::to_string(micro)));
    config.batch.micro = micro;
    run_small(config);
    const TrainTask task = small_task();
    const Context context = make_context(config);
    const PlannedRun run = plan_run(task, config, context, int64_t{1} << 40, false);
    const Plan& plan = plan_of(*run.step->program());
    std::vector<std::string> names;
    double packed = 0;  // bytes that packing reads and writes, which no kernel's cost holds
    const std::function<void(const Plan&)> walk = [&](const Plan& inner) {
      for (const PlanStep& step : inner.steps) {
        if (step.loop == nullptr) {
          names.push_back(display_name({step.name, step.place.scope}));
        }
        if (step.loop == nullptr) {
          continue;
        }
        for (const PlanPack& pack : step.loop->body->packs) {
          names.push_back(display_name({"pack", step.place.scope}));
          packed += static_cast<double>(pack.view.type.bytes() + pack.kernel->packed.bytes);
        }
        for (int64_t t = 0; t < step.loop->length; ++t) {
          walk(*step.loop->body);
        }
      }
    };
    walk(plan);
    const Json trace = profile_of(config);
    const std::vector<Json> kernels = events_of(trace, "kernels");
    ASSERT_EQ(kernels.size(), 3 * names.size());
    double flops = 0;
    double bytes = 0;
    for (size_t i = 0; i < kernels.size(); ++i) {
      EXPECT_EQ(kernels[i].at("name"), names[i % names.size()]);
      flops += kernels[i].at("args").at("FLOPs").get<double>();
      bytes += kernels[i].at("args").at("bytes").get<double>();
    }
    EXPECT_NEAR(flops, 3 * plan.cost.flops, 1e-9 * flops + static_cast<double>(kernels.size()));
    EXPECT_NEAR(bytes, 3 * (plan.cost.bytes + packed),
                1e-9 * bytes + static_cast<double>(kernels.size()));

    const auto summary =
        read_profile(real_files(), join_path(config.run.directory(), kProfileFile));
    ASSERT_TRUE(summary.has_value());
    EXPECT_EQ(summary->first_step, 4);
    EXPECT_EQ(summary->steps, 3);
    EXPECT_EQ(summary->threads, 1);
    EXPECT_GT(summary->limits.flops_per_second, 1e8);
    EXPECT_GT(summary->limits.bytes_per_second, 1e8);
    for (const auto* totals : {&summary->parts, &summary->operations, &summary->layers}) {
      ProfileTotal sum;
      for (const ProfileTotal& total : *totals) {
        sum.calls += total.calls;
        sum.seconds += total.seconds;
        sum.flops += total.flops;
      }
      EXPECT_NEAR(sum.calls, static_cast<double>(names.size()), 1e-6);
      EXPECT_LE(sum.seconds, summary->step_seconds);
      EXPECT_NEAR(sum.flops, plan.cost.flops, 1e-9 * plan.cost.flops);
    }
  }
}

TEST(Profile, LayersAreScopesAndPartsThoseOfTheStep) {
  const KernelTime forward{
      "dot_general", "transformer.h.3.mlp.c_fc", StepPart::kForward, 0, 4'000'000'000, 8, 2};
  const KernelTime other{"dot_general",
                         "transformer.h.10.mlp.c_fc",
                         StepPart::kForward,
                         5'000'000'000,
                         6'000'000'000,
                         8,
                         2};
  const KernelTime backward{"layer_norm_grad", "transformer.ln_f", StepPart::kBackward,
                            6'000'000'000, 8'000'000'000};
  const KernelTime optimizer{"adamw", "optimizer", StepPart::kUpdate, 8'000'000'000, 9'000'000'000};
  const KernelTime bare{"add", "", StepPart::kForward, 9'000'000'000, 9'500'000'000};
  EXPECT_EQ(display_name(forward), "transformer.h.3.mlp.c_fc dot_general");
  EXPECT_EQ(display_name(backward), "transformer.ln_f layer_norm_grad");
  EXPECT_EQ(display_name(bare), "add");
  EXPECT_EQ(part_of({"add", "", StepPart::kBackward}), "backward");
  EXPECT_EQ(part_of({"add", "backward.x"}), "forward");
  const std::vector<KernelTime> kernels{forward, other, backward, optimizer, bare};
  const std::vector<ProfiledStep> steps{{7, 0, 5'000'000'000, 1},
                                        {8, 5'000'000'000, 11'000'000'000, 5}};
  const ProfileSummary summary = summarise(steps, kernels, 2, {100, 50, 1, 1});
  const auto names = [](const std::vector<ProfileTotal>& totals) {
    std::vector<std::string> out;
    for (const ProfileTotal& total : totals) {
      out.push_back(total.name);
    }
    return out;
  };
  EXPECT_THAT(names(summary.parts), ElementsAre("forward", "backward", "optimizer", "other"));
  EXPECT_THAT(names(summary.operations),
              ElementsAre("dot_general", "layer_norm_grad", "adamw", "add"));
  EXPECT_THAT(names(summary.layers), ElementsAre("transformer.h.*.mlp.c_fc", "transformer.ln_f",
                                                 "optimizer", "(no layer)"));
  EXPECT_DOUBLE_EQ(summary.step_seconds, 5.5);
  EXPECT_DOUBLE_EQ(summary.operations[0].seconds, 2.5);  // of a mean step
  EXPECT_DOUBLE_EQ(summary.operations[0].calls, 1);
  EXPECT_DOUBLE_EQ(summary.operations[0].flops, 8);
}

TEST(Profile, MeasuringTheMachineDoesNotCountAsTheRunsMemory) {
  if (kSanitized) {
    GTEST_SKIP() << "the address sanitizer keeps freed memory";
  }
  if (!std::ofstream("/proc/self/clear_refs").is_open()) {
    GTEST_SKIP() << "this system cannot forget a peak";
  }
  const int64_t before = peak_memory_bytes();
  const MachineLimits limits = measure_limits(current_context());
  EXPECT_GE(limits.copied_bytes, int64_t{64} << 20);
  EXPECT_GE(peak_memory_bytes(), before);
  EXPECT_LT(peak_memory_bytes(), before + (int64_t{48} << 20));
}

TEST(Profile, CountsFromWhereTheRunGoesOn) {
  if (kSanitized) {
    GTEST_SKIP() << "the numbers of what other tests run";
  }
  const Messages messages;
  const TemporaryFolder folder;
  TrainConfig config = small_config(folder / "run");
  run_small(config);
  EXPECT_FALSE(real_files().exists(join_path(config.run.directory(), kProfileFile)));
  config.schedule.total_steps = 30;
  config.profile.steps = 1;
  config.profile.first = 2;
  run_small(config);
  EXPECT_EQ(events_of(profile_of(config), "step").at(0).at("name"), "step 22");
  EXPECT_THAT(messages.all(), HasSubstr("profile of step 22: "));
}

TEST(Profile, OfARunThatEndsEarlyHoldsWhatThereIs) {
  const Messages messages;
  const TemporaryFolder folder;
  TrainConfig config = profiled_config(folder / "some");
  config.schedule.total_steps = 5;
  run_small(config);
  EXPECT_EQ(events_of(profile_of(config), "step").size(), 2U);
  TrainConfig none = profiled_config(folder / "none");
  none.schedule.total_steps = 3;
  run_small(none);
  EXPECT_FALSE(real_files().exists(join_path(none.run.directory(), kProfileFile)));
  EXPECT_THAT(messages.all(), HasSubstr("the run ended before step 4; no profile was written"));
}

TEST(Profile, DoesNotChangeTraining) {
  if (kSanitized) {
    GTEST_SKIP() << "the numbers of what other tests run";
  }
  const Messages messages;
  const TemporaryFolder folder;
  const TrainConfig plain = small_config(folder / "plain");
  const TrainConfig profiled = profiled_config(folder / "profiled");
  run_small(plain);
  run_small(profiled);
  EXPECT_EQ(timeless_metrics(plain.run.directory()), timeless_metrics(profiled.run.directory()));
  EXPECT_EQ(checkpoint_file(plain.run.directory(), 20, kModelFile),
            checkpoint_file(profiled.run.directory(), 20, kModelFile));
}

TEST(Profile, IsInTheReportAndADamagedOneIsLeftOut) {
  const Messages messages;
  const TemporaryFolder folder;
  const TrainConfig config = profiled_config(folder / "run");
  run_small(config);
  const std::string directory = config.run.directory();
  const auto report = [&] { return report_html(real_files(), std::span(&directory, 1)); };
  EXPECT_THAT(report(), HasSubstr("\"profile\":{\"first_step\":4,"));
  EXPECT_THAT(real_files().read(join_path(directory, kReportFile)),
              HasSubstr("\"profile\":{\"first_step\":4,"));

  const std::string path = join_path(directory, kProfileFile);
  const std::string good = real_files().read(path);
  const auto put = [&](std::string_view text) {
    real_files().open(path, WriteMode::kTruncate)->append(text);
  };
  put("{\"traceEvents\":[]}");
  EXPECT_THAT(report(), HasSubstr("\"profile\":null"));
  EXPECT_THAT(messages.all(), HasSubstr("profile.json: is left out of the report"));

  constexpr uint64_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  int taken = 0;
  for (uint64_t round = 0; round < 400; ++round) {
    Rng rng(kSeed, round);
    std::string text = good;
    for (uint64_t i = 0; i <= rng.below(4); ++i) {
      const uint64_t from_end = rng.below(round % 2 == 0 ? text.size() : 2000);  // in the totals
      text[text.size() - 1 - from_end] = static_cast<char>(rng.below(256));
    }
    if (round % 5 == 0) {
      text.resize(rng.below(text.size()));
    }
    put(text);
    const auto summary = read_profile(real_files(), path);
    taken += summary.has_value() ? 1 : 0;
    EXPECT_NO_THROW(report());
  }
  EXPECT_LT(taken, 400);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace mstrain
