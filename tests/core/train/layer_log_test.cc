// log.layers: norms and histograms of every parameter.
#include "core/train/layer_log.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/train/report_data.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

class Layers : public Fit {
 protected:
  TrainConfig looking(const std::string& name) const {
    TrainConfig config = small_config(folder_ / name);
    config.log.interval = 1;
    config.log.layers = int64_t{4};
    return config;
  }
  static std::vector<Json> looks(const TrainConfig& config) {
    return read_metrics(real_files(), join_path(config.run.directory(), kLayersFile));
  }
};

TEST_F(Layers, NormsOfGradientsAddUpToTheGlobalOneAndThoseOfWeightsAreTheirs) {
  TrainConfig config = looking("run");
  const SessionResult result = run_small(config);
  const std::vector<Json> rows = looks(config);
  ASSERT_EQ(rows.size(), 5U);
  for (const Json& row : rows) {
    EXPECT_EQ(row["names"], Json({"in.weight", "in.bias", "out.weight", "out.bias"}));
    double squares = 0;
    for (const double norm : row["gradient"].get<std::vector<double>>()) {
      squares += norm * norm;
    }
    for (const Json& step : rows_with(config.run.directory(), "grad_norm")) {
      if (step["step"] == row["step"]) {
        EXPECT_NEAR(std::sqrt(squares), step["grad_norm"].get<double>(), 1e-5);
      }
    }
  }
  double squares = 0;
  for (const double value : to_doubles(*result.params.find("in.weight"))) {
    squares += value * value;
  }
  EXPECT_EQ(rows.back()["step"], 20);
  EXPECT_NEAR(rows.back()["weight"][0].get<double>(), std::sqrt(squares), 1e-9);
  const OrderedJson layers = run_data(real_files(), config.run.directory())["layers"];
  EXPECT_EQ(layers["step"], OrderedJson({4, 8, 12, 16, 20}));
  EXPECT_EQ(layers["gradient"][4].size(), 4U);
}

TEST_F(Layers, LookingChangesNoBitOfTheRun) {
  const TrainConfig with = looking("with");
  TrainConfig without = looking("without");
  without.log.layers = {};
  run_small(with);
  run_small(without);
  expect_same_run(with.run.directory(), without.run.directory(), 20);
  EXPECT_TRUE(looks(without).empty());
}

TEST_F(Layers, ARunThatGoesOnLooksAsIfItHadNeverStopped) {
  const TrainConfig straight = looking("straight");
  run_small(straight);
  const TrainConfig stopped = looking("stopped");
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 9 * 8; };
  run_small(stopped, real_files(), small_data(stop_there), small_task(), &stop);
  EXPECT_EQ(looks(stopped).size(), 2U);
  run_small(stopped);
  EXPECT_EQ(looks(stopped), looks(straight));
}

}  // namespace
}  // namespace mstrain
