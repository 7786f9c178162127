// Rows that a step looks up outside its state: what it teaches them, and how what they are joins checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

// Batches of small_data() whose x[rows, 4] are looked up; keeps what they are taught.
struct Lessons {
  std::vector<RowGradients> all;
};

TrainData taught_data(Lessons& lessons) {
  class Taught final : public BatchStream {
   public:
    Taught(std::unique_ptr<BatchStream> inner, Lessons& lessons)
        : inner_(std::move(inner)), lessons_(lessons) {}
    Tensors next() override { return inner_->next(); }
    int64_t samples() const override { return inner_->samples(); }
    void learn(const RowGradients& learned) override { lessons_.all.push_back(learned); }

   private:
    std::unique_ptr<BatchStream> inner_;
    Lessons& lessons_;
  };
  TrainData data = small_data();
  data.training = [inner = data.training, &lessons](uint64_t seed, const BatchPart& part,
                                                    int64_t first) {
    return std::make_unique<Taught>(inner(seed, part, first), lessons);
  };
  return data;
}

// y is the sum of x, whose weights are 1 as long as nothing is learned.
TrainTask linear_task() {
  TrainTask task = small_task(0);
  const auto model = [](const Params& p, const Tensor& x) {
    return matmul(x, p.get("weight", {4, 1}, ones_init()));
  };
  task.parameters = declare_params([&](const Params& p) {
    model(p, zeros({Dtype::kF32, {1, 4}}));
  });
  task.stored_shapes = {{4, 1}};
  task.sums = [model](const Params& p, std::span<const Tensor> batch) {
    const Tensor errors = square(model(p, batch[0]) - batch[1]);
    return TaskSums{{sum(errors), full({}, static_cast<double>(errors.elements()))}, {}};
  };
  task.looked_up = {0};
  return task;
}

class LookedUp : public testing::Test {
 protected:
  LookedUp() {
    previous_ = set_log_sink([](LogLevel, std::string_view) {});
  }
  ~LookedUp() override { set_log_sink(previous_); }

  TemporaryFolder folder_;
  LogSink previous_;
};

TEST_F(LookedUp, RowsLearnTheGradientsOfTheMeanLossInTheOrderOfTheBatch) {
  for (const Execution execution : {Execution::kGraph, Execution::kEager}) {
    for (const int64_t micro : {8, 4, 2}) {
      Lessons lessons;
      TrainConfig config =
          small_config(folder_ / fmt::format("{}_{}", micro, execution == Execution::kEager));
      config.run.execution = execution;
      config.batch.micro = micro;
      config.schedule.total_steps = 1;
      config.schedule.warmup_steps = 0;
      const TrainData data = taught_data(lessons);
      run_small(config, real_files(), data, linear_task());
      ASSERT_EQ(lessons.all.size(), 1U);
      const RowGradients& learned = lessons.all[0];
      EXPECT_EQ(learned.step, 1);
      EXPECT_TRUE(learned.is_applied);
      ASSERT_EQ(learned.gradients.size(), 1U);
      const auto stream = small_data().training(static_cast<uint64_t>(config.run.seed), 8, 0);
      const Tensors batch = stream->next();
      const std::vector<float> x = to_vector<float>(batch[0]);
      const std::vector<float> y = to_vector<float>(batch[1]);
      const std::vector<float> found = to_vector<float>(learned.gradients[0]);
      ASSERT_EQ(found.size(), x.size());
      for (size_t b = 0; b < 8; ++b) {
        const double error = double{x[4 * b]} + x[4 * b + 1] + x[4 * b + 2] + x[4 * b + 3] - y[b];
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_NEAR(found[4 * b + i], 2 * error / 8, 1e-6) << b;  // a few roundings of f32
        }
      }
    }
  }
}

TEST_F(LookedUp, RowsLearnByTheScheduleAlsoWhereNothingElseDoes) {
  const auto scales = [&](double lr) {
    Lessons lessons;
    TrainConfig config = small_config(folder_ / fmt::format("lr_{}", lr));
    config.optimizer.lr = lr;
    config.schedule.type = ScheduleType::kPlateau;
    config.schedule.patience = 1;
    run_small(config, real_files(), taught_data(lessons), linear_task());
    std::vector<double> out;
    for (const RowGradients& learned : lessons.all) {
      out.push_back(learned.lr_scale);
    }
    return out;
  };
  const std::vector<double> still = scales(0);
  ASSERT_EQ(still.size(), 20U);
  EXPECT_EQ(still[0], 0.25);
  EXPECT_EQ(still[3], 1);
  EXPECT_EQ(still.back(), 0.1) << "losses that stay the same are plateaus";
  EXPECT_EQ(scales(1e-30), still);
}

// Counts what is done with it.
class Told final : public OutsideState {
 public:
  std::string name() const override { return "told"; }
  void resume(const std::optional<std::string>& id) override {
    resumed.push_back(id.value_or("anew"));
  }
  std::string prepare(int64_t step) override { return "at " + std::to_string(step); }
  void wait(const std::string& id) override { durable = id; }
  void confirm(const std::string& id, const std::vector<std::string>& needed) override {
    EXPECT_EQ(id, durable);
    confirmed = needed;
  }
  std::string describe() const override { return ""; }

  std::vector<std::string> resumed, confirmed;
  std::string durable;
};

TEST_F(LookedUp, OutsideStateGoesOnFromWhatTheCheckpointNames) {
  const auto told = std::make_shared<Told>();
  Lessons lessons;
  TrainData data = taught_data(lessons);
  data.outside = told;
  TrainConfig config = small_config(folder_ / "outside");
  config.schedule.total_steps = 20;
  config.checkpoint.keep = 2;
  run_small(config, real_files(), data, linear_task());
  EXPECT_THAT(told->resumed, ElementsAre("anew"));
  EXPECT_THAT(told->confirmed, testing::UnorderedElementsAre("at 15", "at 20"));
  config.schedule.total_steps = 24;
  run_small(config, real_files(), data, linear_task());
  EXPECT_THAT(told->resumed, ElementsAre("anew", "at 20"));
  EXPECT_EQ(lessons.all.back().step, 24);
  // A checkpoint of a run without it.
  TrainConfig other = small_config(folder_ / "without");
  run_small(other, real_files(), small_data(), small_task());
  other.schedule.total_steps = 24;
  TrainData more = small_data();
  more.outside = told;
  EXPECT_THROW(run_small(other, real_files(), more, small_task()), IoError);
}

}  // namespace
}  // namespace mstrain
