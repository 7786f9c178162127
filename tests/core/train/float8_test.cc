// Runs whose products are in fp8.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/io/safetensors.h"
#include "core/ops/stage.h"
#include "core/optim/float8_magnitudes.h"
#include "core/train/run_device.h"
#include "tests/core/base/message_of.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSteps = 20;

constexpr int64_t kLayers = 2;

// Two of its layers are hidden ones.
TrainTask layered_task(int64_t width = 32) {
  return regression_task([width](const Params& p, const Tensor& x) {
    Tensor h = tanh(linear(p / "in", x, {width}));
    for (int64_t i = 0; i < kLayers; ++i) {
      h = stage_point(h, i);
      h = h + tanh(linear(p / "layers" / i, h, {width}));
    }
    return linear(p / "out", stage_point(h, kLayers), {1});
  });
}

// Of which those are kept that begin so.
TrainTask with_frozen(TrainTask task, const std::string& prefix) {
  const auto trained =
      std::stable_partition(task.parameters.begin(), task.parameters.end(),
                            [&](const ParamSpec& spec) { return !spec.name.starts_with(prefix); });
  task.frozen.assign(trained, task.parameters.end());
  task.parameters.erase(trained, task.parameters.end());
  task.stored_shapes.clear();
  for (const ParamSpec& spec : task.parameters) {
    task.stored_shapes.push_back(spec.type.shape);
  }
  for (ParamSpec& spec : task.frozen) {
    spec.type.dtype = Dtype::kBF16;
  }
  task.frozen_weights = [specs = task.frozen] {
    return cast_params(init_params(specs, 7), Dtype::kBF16);
  };
  return task;
}

class Float8Runs : public testing::Test {
 protected:
  Float8Runs() {
    previous_ = set_log_sink([](LogLevel, std::string_view) {});
  }
  ~Float8Runs() override { set_log_sink(previous_); }

  TrainConfig config(const std::string& name) const {
    TrainConfig config = small_config(folder_ / name);
    config.precision.params = FloatType::kBf16;
    config.precision.products = ProductType::kFp8;
    config.precision.fp8_history = 4;
    config.optimizer.clip_grad = 1;
    config.parallel.zero.min_numel = 0;
    return config;
  }
  static std::string train(const TrainConfig& config, int ranks = 1,
                           const TrainData& data = small_data(),
                           const std::atomic<bool>* stop = nullptr,
                           const TrainTask& task = layered_task()) {
    if (ranks == 1) {
      run_small(config, real_files(), data, task, stop);
      return config.run.directory();
    }
    run_ranks(mesh_of(config.parallel, ranks), [&](std::shared_ptr<Ranks> mesh) {
      SessionStart start;
      start.ranks = std::move(mesh);
      run_small(config, real_files(), data, task, nullptr, start);
    });
    return config.run.directory();
  }
  std::string refusal(const std::function<void(TrainConfig&)>& change, int64_t width = 32) const {
    TrainConfig changed = config("refused");
    change(changed);
    return error_of([&] { run_small(changed, real_files(), small_data(), layered_task(width)); });
  }

  TemporaryFolder folder_;
  LogSink previous_;
};

TEST_F(Float8Runs, ReachTheLossOfBf16) {
  const auto loss = [&](const char* name, ProductType products) {
    TrainConfig run = config(name);
    run.precision.products = products;
    run.precision.fp8_history = products == ProductType::kFp8 ? 16 : 1024;
    run.schedule.total_steps = 300;
    run.eval.interval = 300;
    run.checkpoint.interval = 300;
    return run_small(run, real_files(), small_data(), layered_task()).evaluation->loss();
  };
  const double wide = loss("bf16", ProductType::kParams), narrow = loss("fp8", ProductType::kFp8);
  EXPECT_LT(wide, 0.05);  // the targets' variance is 0.6
  EXPECT_NEAR(narrow, wide, 0.02);
  EXPECT_NE(narrow, wide);
}

TEST_F(Float8Runs, GoOnAsIfTheyHadNeverStopped) {
  for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
    const auto run_of = [&](const char* name) {
      TrainConfig run = config(fmt::format("{}_{}", name, static_cast<int>(execution)));
      run.run.execution = execution;
      run.batch.micro = 2;
      return run;
    };
    const std::string straight = train(run_of("straight"));
    std::atomic<bool> stop = false;
    train(run_of("stopped"), 1, small_data([&](int64_t sample) { stop = sample >= 7 * 8; }), &stop);
    expect_same_run(straight, train(run_of("stopped")), kSteps);
  }
}

TEST_F(Float8Runs, AreGraphsAtO0BitForBit) {
  TrainConfig eager = config("eager"), graph = config("graph");
  eager.run.execution = Execution::kEager;
  graph.fusion.level = FusionLevel::kO0;
  expect_same_run(train(eager), train(graph), kSteps);
}

TEST_F(Float8Runs, HaveTheBitsOfOneRankForEveryStageAndNumberOfRanks) {
  const auto shared = [&](int ranks, int64_t stage) {
    TrainConfig run = config(fmt::format("{}_{}", ranks, stage));
    run.batch.micro = 1;
    run.parallel.zero.stage = stage;
    return train(run, ranks);
  };
  const std::string alone = shared(1, 0);
  for (const int ranks : {2, 4}) {
    for (const int64_t stage : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, stage {}", ranks, stage));
      expect_same_run(alone, shared(ranks, stage), kSteps);
    }
  }
}

std::vector<float> magnitudes_of(const std::string& directory, int64_t step) {
  const std::string folder = join_path(join_path(directory, "checkpoints"), checkpoint_name(step));
  const SafetensorsFile file(real_files(), join_path(folder, kOptimizerFile));
  const auto bytes = file.data(file.at("fp8_magnitudes"));
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Each stage finds the magnitudes of its own layers, and keeps those of all.
TEST_F(Float8Runs, HaveTheBitsOfOneRankInEveryPipeline) {
  struct Division {
    int64_t data, pipeline;
    const char* schedule;
  };
  TrainConfig run = config("alone");
  run.batch.micro = 1;
  const std::string alone = train(run);
  int next = 0;
  for (const Division& division : {Division{1, 2, "1f1b"}, Division{1, 2, "gpipe"},
                                   Division{1, 2, "zb_h1"}, Division{2, 2, "1f1b"}}) {
    for (const int64_t stage : {0, 3}) {
      TrainConfig shared = config(fmt::format("shared_{}", next++));
      SCOPED_TRACE(shared.run.output_dir.value_or(""));
      shared.batch.micro = 1;
      shared.parallel.data = division.data;
      shared.parallel.pipeline = division.pipeline;
      shared.parallel.schedule = division.schedule;
      shared.parallel.zero.stage = stage;
      expect_same_run(alone, train(shared, static_cast<int>(division.data * division.pipeline)),
                      kSteps);
    }
  }
}

TEST_F(Float8Runs, ReadNoWeightsOfOtherStages) {
  TrainConfig run = config("planned");
  run.batch.micro = 1;
  run.parallel.pipeline = 2;
  const TrainTask task = layered_task();
  for (const int64_t stage : {0, 1}) {
    for (const ParamSpec& spec :
         StepProgram(task, run, 1, current_context(), stage).stage_parameters()) {
      EXPECT_THAT(spec.name, Not(HasSubstr(stage == 0 ? "layers.1" : "layers.0")));
    }
  }
}

// Of a weight that is not trained the magnitude, and so the unit, stays what it is.
TEST_F(Float8Runs, MakeProductsWithWeightsThatAreNotTrained) {
  const TrainTask task = with_frozen(layered_task(), "layers.0.weight");
  TrainConfig run = config("alone");
  run.batch.micro = 1;
  const std::string alone = train(run, 1, small_data(), nullptr, task);
  const std::vector<float> found = magnitudes_of(alone, kSteps);
  ASSERT_EQ(found.size(), 24U);
  bool learned = false;
  for (size_t step = 0; step < 4; ++step) {
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_GT(found[6 * step + i], 0) << i;
    }
    EXPECT_EQ(found[6 * step + 4], found[4]);  // frozen weights follow those that are trained
    learned = learned || found[6 * step + 1] != found[1];
  }
  EXPECT_TRUE(learned);
  TrainConfig wide = config("wide");
  wide.batch.micro = 1;
  wide.precision.products = ProductType::kParams;
  wide.precision.fp8_history = 1024;
  EXPECT_NE(timeless_metrics(alone), timeless_metrics(train(wide, 1, small_data(), nullptr, task)));
  for (const auto& [data, pipeline] : {std::pair(2, 1), {1, 2}}) {
    TrainConfig shared = config(fmt::format("shared_{}_{}", data, pipeline));
    shared.batch.micro = 1;
    shared.parallel.data = data;
    shared.parallel.pipeline = pipeline;
    shared.parallel.zero.stage = data == 1 ? 0 : 3;
    expect_same_run(alone, train(shared, data * pipeline, small_data(), nullptr, task), kSteps);
  }
}

// 4 steps of 2 weights with 3 magnitudes each, the last one first.
TEST_F(Float8Runs, RememberTheMagnitudesOfTheLastSteps) {
  TrainConfig run = config("run");
  run.checkpoint.interval = 1;
  run.checkpoint.keep = 20;
  const std::string directory = train(run);
  const std::vector<float> first = magnitudes_of(directory, 1);
  const std::vector<float> before = magnitudes_of(directory, 19),
                           after = magnitudes_of(directory, 20);
  ASSERT_EQ(after.size(), 24U);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_GT(first[i], 0) << i;
  }
  EXPECT_NE(after[2], first[2]);  // of a gradient
  EXPECT_EQ(std::count(first.begin() + 6, first.end(), 0), 18);
  EXPECT_TRUE(std::equal(after.begin() + 6, after.end(), before.begin()));
}

TEST_F(Float8Runs, ForgetWhatIsNoFiniteNumber) {
  TrainConfig run = config("run");
  run.optimizer.not_finite = NotFinite::kSkip;
  run.checkpoint.interval = 1;
  run.checkpoint.keep = 20;
  const std::string directory = train(run, 1, poisoned_data({6}));
  for (const int64_t step : {6, 7, 20}) {
    for (const float value : magnitudes_of(directory, step)) {
      EXPECT_TRUE(std::isfinite(value)) << step;
    }
  }
  EXPECT_EQ(magnitudes_of(directory, 6)[2], 0);  // of gradients
  EXPECT_GT(magnitudes_of(directory, 7)[2], 0);
}

TEST_F(Float8Runs, SayWhatTheyCannot) {
  EXPECT_EQ(refusal([](TrainConfig& c) { c.precision.params = FloatType::kFp32; }),
            "precision.products: fp8 has bf16 for everything that is no product; say bf16 for "
            "precision.params");
  EXPECT_THAT(refusal([](TrainConfig&) {}, 24),
              HasSubstr("precision.products: the model has no layers whose weights' sizes are "
                        "multiples of 16; say params"));
  const auto planned = [&](const char* peaks, const std::function<void(TrainConfig&)>& change) {
    TrainConfig run = config("planned");
    change(run);
    DeviceDescription device{.name = "a card", .memory_gb = 1, .memory_gbps = 1};
    read_config(parse_yaml(peaks, "peaks"), device.peak_tflops);
    const Context context{.backend = described_backend("cuda", device)};
    return error_of([&] { StepProgram(layered_task(), run, 8, context); });
  };
  EXPECT_EQ(planned("{fp32: 1, bf16: 1}", [](TrainConfig&) {}),
            "precision.products: by its description (peak_tflops.fp8) a card makes no products of "
            "8-bit floats; say params");
  EXPECT_EQ(planned("{fp32: 1, bf16: 1, fp8: 1}", [](TrainConfig&) {}), "no error");
}

}  // namespace
}  // namespace mstrain
