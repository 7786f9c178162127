// Where the ranks of a run spend their time: known figures, and a run's own.
#include "core/train/rank_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/core/base/temporary_folder.h"
#include "tests/core/train/small_task.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using Half = KernelTime::Half;

KernelTime kernel(std::string_view op, int64_t begin, int64_t end, std::string_view axis = {},
                  Half half = Half::kWhole, int64_t done = 0) {
  return {op, "", StepPart::kForward, begin, end, 0, 0, axis, half, done};
}

// In seconds what stands in nanoseconds.
void expect_total(const RankTotal& total, const std::vector<double>& nanoseconds) {
  const std::vector<double> found{total.products * 1e9, total.others * 1e9,  total.exchanges * 1e9,
                                  total.waiting * 1e9,  total.bubbles * 1e9, total.hidden * 1e9};
  EXPECT_THAT(found, testing::Pointwise(testing::DoubleNear(1e-6), nanoseconds));
}

TEST(RankProfile, TellsExchangesUnderOtherWorkFromThoseThatAreWaitedFor) {
  std::vector<RankRecord> records(2);
  records[0].steps = records[1].steps = {{1, 0, 40, 4}};
  records[0].kernels = {kernel("dot_general + bias", 0, 10),
                        kernel("all_reduce", 10, 11, "data", Half::kBegin), kernel("gelu", 11, 20),
                        kernel("wait for all_reduce", 20, 30, "data", Half::kWait, 28)};
  // The other one comes later.
  records[1].kernels = {kernel("attention", 0, 15),
                        kernel("all_reduce", 15, 16, "data", Half::kBegin),
                        kernel("wait for all_reduce", 16, 26, "data", Half::kWait, 25)};
  const Mesh two{{{"data", 2}}};
  std::vector<RankTotal> totals = rank_totals(records, two);
  expect_total(totals[0], {10, 9, 11, 0, 0, 5});
  expect_total(totals[1], {15, 0, 11, 0, 0, 0});
  // Whoever has nothing else to do meanwhile waits for it.
  records[0].kernels.erase(records[0].kernels.begin() + 2);
  records[0].kernels.back().begin = 11;
  totals = rank_totals(records, two);
  expect_total(totals[0], {10, 0, 16, 4, 0, 0});
  // Along an axis where each is alone nobody waits for the other.
  totals = rank_totals(records, {{{"data", 1}, {"tensor", 2}}});
  expect_total(totals[0], {10, 0, 20, 0, 0, 0});
}

TEST(RankProfile, TellsBubblesFromMessages) {
  std::vector<RankRecord> records(2);
  for (RankRecord& record : records) {
    record.steps = {{1, 100, 200, 0}, {2, 200, 300, 0}};
  }
  for (const int64_t at : {100, 200}) {
    const auto add = [&](size_t rank, Work work, std::array<int64_t, 3> times) {
      records[rank].actions.push_back(
          {work, static_cast<int>(rank), 0, at + times[0], at + times[1], at + times[2]});
    };
    add(0, Work::kForward, {0, 0, 10});
    add(0, Work::kBackward, {10, 45, 55});  // it is made at 41
    add(1, Work::kForward, {2, 13, 23});    // at 10
    add(1, Work::kBackward, {23, 23, 41});
    // The other one is there when its own part of the schedule is done.
    records[1].kernels.push_back(kernel("all_reduce", at + 41, at + 58, kPipelineAxis));
    records[0].kernels.push_back(kernel("all_reduce", at + 55, at + 58, kPipelineAxis));
    records[0].kernels.push_back(kernel("adamw", at + 58, at + 60));
    records[0].kernels.back().part = StepPart::kUpdate;
  }
  const Mesh two{{{std::string(kPipelineAxis), 2}}};
  const std::vector<RankTotal> totals = rank_totals(records, two);
  expect_total(totals[0], {0, 2, 4 + 3, 0, 31, 0});
  expect_total(totals[1], {0, 0, 3 + 3, 0, 8 + 14, 0});
  // Bars of the picture, which a file keeps in microseconds.
  for (RankRecord& record : records) {
    for (ProfiledStep& step : record.steps) {
      step.begin *= 1000;
      step.end *= 1000;
    }
    for (ActionTime& action : record.actions) {
      action = {action.work,         action.chunk,        action.micro_batch,
                action.asked * 1000, action.begin * 1000, action.end * 1000};
    }
    for (KernelTime& it : record.kernels) {
      it.begin *= 1000;
      it.end *= 1000;
    }
  }
  const Timeline picture = measured_step(records, two);
  const Json json = Json::parse(to_json(picture).dump());
  EXPECT_EQ(json, Json::parse(R"({"seconds": 0.0001, "ranks": [
    [["F", 0, 0, 0.0, 1e-05], ["B", 0, 0, 4.5e-05, 5.5e-05], ["X", -1, -1, 5.5e-05, 5.8e-05],
     ["U", -1, -1, 5.8e-05, 6e-05]],
    [["F", 1, 0, 1.3e-05, 2.3e-05], ["B", 1, 0, 2.3e-05, 4.1e-05], ["X", -1, -1, 5.5e-05, 5.8e-05]]]})"));
  EXPECT_EQ(Json::parse(to_json(timeline_from(json)).dump()), json);
}

TEST(RankProfile, ShowsManyShortKernelsAsOneBarOfTheirKind) {
  std::vector<RankRecord> records(1);
  const int64_t step = 10'000'000;
  records[0].steps = {{1, 0, step, 0}};
  std::vector<KernelTime>& kernels = records[0].kernels;
  kernels = {kernel("dot_general", 0, step / 2)};
  kernels[0].scope = "model";
  for (int64_t begin = step / 2; begin < 9 * step / 10; begin += 1000) {
    kernels.push_back(kernel("gelu", begin, begin + 1000));
    kernels.back().part = StepPart::kBackward;
  }
  kernels.push_back(kernel("adamw", 9 * step / 10, 9 * step / 10 + 1000));
  kernels.back().part = StepPart::kUpdate;
  // One of a kind that was there before, too short to be seen.
  kernels.push_back(kernel("dot_general", 9 * step / 10 + 1000, 9 * step / 10 + 2000));
  kernels.back().scope = "model";
  const Json json =
      Json::parse(to_json(measured_step(records, Mesh{{{std::string(kDataAxis), 1}}})).dump());
  EXPECT_EQ(json, Json::parse(R"({"seconds": 0.01, "ranks": [
    [["F", -1, -1, 0.0, 0.005], ["B", -1, -1, 0.005, 0.009], ["U", -1, -1, 0.009, 0.009002]]]})"));
}

TEST(RankProfile, OfARunHasARowForEachRank) {
  const TemporaryFolder folder;
  TrainConfig config = small_config(folder / "run");
  config.batch.micro = 1;
  config.parallel.zero.min_numel = 0;
  config.profile.steps = 2;
  config.profile.first = 3;
  run_ranks(4, [&](std::shared_ptr<Ranks> mesh) {
    SessionStart start;
    start.ranks = std::move(mesh);
    run_small(config, real_files(), small_data(), small_task(), nullptr, start);
  });
  const auto read = [&](const char* name) {
    const std::string path = join_path(config.run.directory(), name);
    return parse_json(real_files().read(path), path);
  };
  const Json trace = read(kProfileFile);
  const Json& ranks = trace.at("otherData").at("ranks");
  ASSERT_EQ(ranks.size(), 4U);
  const double step = trace.at("otherData").at("step_seconds").get<double>();
  // The picture has the work of every rank, within the step.
  const Timeline picture = timeline_from(trace.at("otherData").at("measured"));
  ASSERT_EQ(picture.ranks.size(), 4U);
  for (const std::vector<Bar>& bars : picture.ranks) {
    std::set<Bar::Kind> kinds;
    for (size_t i = 0; i < bars.size(); ++i) {
      kinds.insert(bars[i].kind);
      EXPECT_LE(i == 0 ? 0 : bars[i - 1].end, bars[i].begin);
      EXPECT_LE(bars[i].end, picture.seconds + 1e-6);
    }
    EXPECT_TRUE(kinds.contains(Bar::Kind::kBackward));
  }
  for (const Json& rank : ranks) {
    EXPECT_GT(rank.at("products").get<double>(), 0);
    EXPECT_GT(rank.at("exchanges").get<double>(), 0);
  }
  EXPECT_LE(ranks[0].at("products").get<double>() + ranks[0].at("others").get<double>() +
                ranks[0].at("exchanges").get<double>() + ranks[0].at("waiting").get<double>(),
            step);
  std::map<int64_t, std::set<std::string>> kernels;  // by process
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("cat") != "step") {
      kernels[event.at("pid").get<int64_t>()].insert(event.at("name").get<std::string>());
    }
  }
  ASSERT_EQ(kernels.size(), 4U);
  for (const auto& [process, names] : kernels) {
    EXPECT_EQ(names, kernels[1]) << process;
  }
  const Json record = read(kRunFile);
  ASSERT_EQ(record.at("ranks").size(), 4U);
  for (const Json& rank : record.at("ranks")) {
    EXPECT_EQ(rank.at("planned_memory_bytes"), record.at("planned_memory_bytes"));
    EXPECT_GT(rank.at("peak_memory_bytes").get<int64_t>(), 0);
  }
  const auto again = read_profile(real_files(), join_path(config.run.directory(), kProfileFile));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(Json::parse(to_json(*again).dump()), trace.at("otherData"));
}

}  // namespace
}  // namespace mstrain
