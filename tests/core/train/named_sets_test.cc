// Held-out data under several names: measures, curves, best values and monitors of each.
#include <gmock/gmock.h>

#include <limits>

#include "core/base/error.h"
#include "core/io/events.h"
#include "core/train/report_data.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NamedSets : public Fit {
 protected:
  // Of 16 and of 8 samples.
  static TrainData two_sets() {
    TrainData data = small_data();
    const EvaluationSet one = data.evaluation.front();
    data.evaluation = {{"web", one.first, 16}, {"code", one.first, 8}};
    return data;
  }

  // By step, the tags that TensorBoard has of `prefix`.
  static std::vector<std::string> tags(const std::string& directory, const std::string& prefix) {
    std::vector<std::string> out;
    for (const std::string& name : real_files().list(directory)) {
      if (name.starts_with(kEventsPrefix)) {
        for (const EventRecord& event :
             read_events(real_files(), join_path(directory, name)).events) {
          for (const EventValue& value : event.values) {
            if (value.tag.starts_with(prefix)) {
              out.push_back(value.tag);
            }
          }
        }
      }
    }
    return out;
  }
};

TEST_F(NamedSets, EachHasMeasuresOfItsOwnBesideThoseOfAll) {
  const TrainConfig config = small_config(folder_ / "run");
  const SessionResult result = run_small(config, real_files(), two_sets());
  const std::vector<Json> rows = rows_with(config.run.directory(), kEvalLoss);
  EXPECT_EQ(rows.size(), 5U);
  for (const Json& row : rows) {
    EXPECT_EQ(row["eval_predictions/web"], 16);
    EXPECT_EQ(row["eval_predictions/code"], 8);
    EXPECT_EQ(row["eval_predictions"], 24);
    const double web = row["eval_loss/web"];
    const double code = row["eval_loss/code"];
    EXPECT_NEAR(row["eval_loss"].get<double>(), (16 * web + 8 * code) / 24, 1e-6);
  }
  EXPECT_THAT(describe(result.evaluation->metrics), HasSubstr("; web: eval loss"));
  EXPECT_THAT(describe(result.evaluation->metrics), HasSubstr("; code: eval loss"));
  EXPECT_THAT(tags(config.run.directory(), "eval/loss/web"), testing::SizeIs(5));
}

TEST_F(NamedSets, OneWithoutANameIsWhatItWas) {
  const TrainConfig config = small_config(folder_ / "run");
  run_small(config);
  for (const Json& row : rows_with(config.run.directory(), kEvalLoss)) {
    for (const auto& [key, value] : row.items()) {
      EXPECT_EQ(key.find('/'), std::string::npos) << key;
    }
  }
}

TEST_F(NamedSets, RulesFollowOneOfThem) {
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.best = "eval_loss/code";
  const SessionResult result = run_small(config, real_files(), two_sets());
  ASSERT_TRUE(result.best.has_value());
  double least = 1e9;
  for (const Json& row : rows_with(config.run.directory(), kEvalLoss)) {
    least = std::min(least, row["eval_loss/code"].get<double>());
  }
  EXPECT_EQ(result.best->value, least);
  config = small_config(folder_ / "other");
  config.checkpoint.best = "eval_loss/cod";
  EXPECT_THAT(message_of<ConfigError>([&] { run_small(config, real_files(), two_sets()); }),
              HasSubstr("this run measures no eval_loss/cod; it measures eval_loss, "
                        "eval_loss/web, eval_loss/code"));
}

TEST_F(NamedSets, TheReportHasACurveAndTheBestValueOfEach) {
  const TrainConfig config = small_config(folder_ / "run");
  run_small(config, real_files(), two_sets());
  const OrderedJson eval = run_data(real_files(), config.run.directory())["eval"];
  ASSERT_EQ(eval.size(), 3U);
  EXPECT_EQ(eval[0]["set"], "");
  EXPECT_EQ(eval[1]["set"], "code");  // keys of a row come sorted
  EXPECT_EQ(eval[2]["set"], "web");
  for (const OrderedJson& set : eval) {
    EXPECT_EQ(set["step"], OrderedJson({4, 8, 12, 16, 20}));
    const std::vector<double> losses = set["eval_loss"];
    EXPECT_EQ(set["best"]["value"], *std::min_element(losses.begin(), losses.end()));
  }
}

// A mean over other predictions is no point of the same curve.
TEST_F(NamedSets, EvaluationsOverOtherBatchesHaveATagOfTheirOwn) {
  TrainConfig config = small_config(folder_ / "run");
  config.schedule.total_steps = 8;
  run_small(config);
  config.schedule.total_steps = 16;
  config.eval.batches = int64_t{1};
  run_small(config);
  EXPECT_THAT(tags(config.run.directory(), "eval/"),
              ElementsAre("eval/loss", "eval/loss", "eval/loss@8", "eval/loss@8"));
}

TEST_F(NamedSets, MoreBatchesThanThereAreSamplesAreAllOfThem) {
  for (const int64_t batches : {int64_t{3}, std::numeric_limits<int64_t>::max() / 4}) {
    TrainConfig config = small_config(folder_ / std::to_string(batches));
    config.eval.batches = batches;
    run_small(config);
    const std::vector<Json> rows = rows_with(config.run.directory(), kEvalLoss);
    EXPECT_EQ(rows.size(), 5U);
    for (const Json& row : rows) {
      EXPECT_EQ(row[kPredictions], 16);
    }
  }
}

}  // namespace
}  // namespace mstrain
