#include "core/train/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/memory_disk.h"

namespace mstrain {
namespace {

using testing::ElementsAre;

std::vector<int64_t> steps_of(const std::string& path) {
  std::vector<int64_t> out;
  for (const Json& row : read_metrics(real_files(), path)) {
    out.push_back(row["step"].get<int64_t>());
  }
  return out;
}

TEST(MetricsFile, IsCutBackToTheStepItGoesOnFrom) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  {
    MetricsFile file(real_files(), path, 0);
    for (const int64_t step : {1, 5, 10, 15, 20}) {
      file.write({{"step", step}, {"loss", 1.5}});
    }
  }
  EXPECT_THAT(steps_of(path), ElementsAre(1, 5, 10, 15, 20));
  MetricsFile(real_files(), path, 10).write({{"step", 11}});
  EXPECT_THAT(steps_of(path), ElementsAre(1, 5, 10, 11));
}

TEST(MetricsFile, HalfALineThatAKilledRunLeftIsCutOff) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  real_files().open(path, WriteMode::kTruncate)->append("{\"step\":1}\n{\"step\":2}\n{\"ste");
  EXPECT_THAT(steps_of(path), ElementsAre(1, 2));
  MetricsFile(real_files(), path, 100).write({{"step", 3}});
  EXPECT_EQ(real_files().read(path), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
}

TEST(MetricsFile, NumbersReadBackBitForBit) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  const double value = 0.1 + 0.2;
  MetricsFile(real_files(), path, 0).write({{"step", 1}, {"step_seconds", value}});
  EXPECT_EQ(read_metrics(real_files(), path).at(0)["step_seconds"].get<double>(), value);
}

TEST(MetricsFile, AnyBytesAreRowsOrLeftOut) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  Rng rng(4711);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int line = 0; line < 5; ++line) {
      std::string row = "{\"step\":" + std::to_string(line) + ",\"loss\":1.25}\n";
      if (rng.below(2) == 0) {
        row[rng.below(row.size())] = static_cast<char>(rng.below(256));
      }
      text += row;
    }
    real_files().open(path, WriteMode::kTruncate)->append(as_bytes(text));
    { const MetricsFile cut(real_files(), path, 3); }
    for (const int64_t step : steps_of(path)) {
      EXPECT_LE(step, 3);
    }
  }
}

}  // namespace
}  // namespace mstrain
