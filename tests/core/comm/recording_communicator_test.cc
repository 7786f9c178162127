#include "core/comm/recording_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/base/message_of.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> told(const Recording& recording) {
  std::vector<std::string> lines;
  for (const Exchange& each : recording.exchanges) {
    lines.push_back(fmt::format("{} {} {} {} {}", each.operation, each.group, each.ranks,
                                each.bytes, each.what));
  }
  return lines;
}

TEST(RecordingCommunicator, WritesDownWhatARankOfAMeshWouldExchange) {
  const auto recording = std::make_shared<Recording>();
  const Mesh mesh{{{"data", 4}, {"tensor", 2}}};
  Ranks ranks(mesh, recording_communicator(mesh, 5, recording));
  EXPECT_EQ(ranks.rank(), 5);
  EXPECT_EQ(ranks.along("data").rank(), 2);
  EXPECT_EQ(ranks.along("tensor").rank(), 1);
  float x[8] = {1, 2, 3};
  const Elements all{x, 8, Dtype::kF32};
  const std::vector<int64_t> counts{2, 2, 2, 2};
  ranks.along("data").all_reduce(all, all, Reduction::kSum, "loss").wait();
  ranks.along("data").reduce_scatter(all, {x, 2, Dtype::kF32}, counts, Reduction::kSum, "g").wait();
  ranks.along("data").all_gather({x, 2, Dtype::kF32}, all, counts, "w").wait();
  ranks.along("tensor").send(all, 0, "ring").wait();
  ranks.world().barrier("end");
  EXPECT_THAT(told(*recording), ElementsAre("all_reduce data 4 32 loss",
                                            "reduce_scatter data 4 32 g", "all_gather data 4 32 w",
                                            "send tensor 2 32 ring", "barrier all ranks 8 0 end"));
  EXPECT_EQ(x[0], 1);
  EXPECT_THAT(message_of<Error>([&] { ranks.world().split(0, "rows"); }),
              HasSubstr("data 4 × tensor 2; rows is none of them"));
}

TEST(RecordingCommunicator, ExchangesOfAGroupTakeTheirTimeOneAfterAnother) {
  const auto recording = std::make_shared<Recording>();
  recording->seconds = [](const Exchange& exchange) { return exchange.what == "slow" ? 1e6 : 0; };
  const Mesh mesh{{{"data", 2}, {"tensor", 2}}};
  Ranks ranks(mesh, recording_communicator(mesh, 0, recording));
  float x = 0;
  const Elements one{&x, 1, Dtype::kF32};
  EXPECT_TRUE(ranks.along("data").all_reduce(one, one, Reduction::kSum, "fast").done());
  EXPECT_FALSE(ranks.along("data").all_reduce(one, one, Reduction::kSum, "slow").done());
  EXPECT_FALSE(ranks.along("data").all_reduce(one, one, Reduction::kSum, "fast").done());
  EXPECT_TRUE(ranks.along("tensor").all_reduce(one, one, Reduction::kSum, "fast").done());
}

}  // namespace
}  // namespace mstrain
