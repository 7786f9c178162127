// The callback of docs/training.md, as the page starts it.
#include <gtest/gtest.h>

#include "core/train/callback.h"
#include "core/train/trainer.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"

namespace mstrain {
namespace {

TEST(TrainingPage, ItsCallbackEndsTheRunThatIsGoodEnough) {
  const TemporaryFolder folder;
  FileSystem& files = real_files();
  TrainConfig config = small_config(folder / "run");
  config.schedule.total_steps = 1000;
  const YamlNode resolved = write_config(WholeConfig{config});
  const TrainTask task = small_task();
  const TrainData data = small_data();
  const Refuse refuse = [](const RunPlan& plan, int64_t limit) {
    throw PlanError(refusal(plan, limit, {}));
  };
  const std::atomic<bool> stop = false;

#include "docs/training.inc"

  const std::vector<Json> rows = read_metrics(files, join_path(folder / "run", kMetricsFile));
  ASSERT_FALSE(rows.empty());
  EXPECT_LT(rows.back().value("step", 1000), 1000);
  EXPECT_NE(files.read(join_path(folder / "run", "run.json")).find("good enough"),
            std::string::npos);
}

}  // namespace
}  // namespace mstrain
