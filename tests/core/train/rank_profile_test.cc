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
  const std::vector<double> found{total.products * 1e9, total.others * 1e9, total.exchanges * 1e9,
                                  total.waiting * 1e9, total.hidden * 1e9};
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
  expect_total(totals[0], {10, 9, 11, 0, 5});
  expect_total(totals[1], {15, 0, 11, 0, 0});
  // Whoever has nothing else to do meanwhile waits for it.
  records[0].kernels.erase(records[0].kernels.begin() + 2);
  records[0].kernels.back().begin = 11;
  totals = rank_totals(records, two);
  expect_total(totals[0], {10, 0, 16, 4, 0});
  // Along an axis where each is alone nobody waits for the other.
  totals = rank_totals(records, {{{"data", 1}, {"tensor", 2}}});
  expect_total(totals[0], {10, 0, 20, 0, 0});
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
