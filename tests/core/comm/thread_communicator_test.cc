// Collectives of threads against plain loops, and what ranks are told of others that fail them.
#include "core/comm/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "core/comm/sums.h"
#include "tests/core/base/message_of.h"
#include "tests/core/comm/collectives.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Each : public testing::TestWithParam<Dtype> {};

TEST_P(Each, CollectivesDoWhatALoopDoes) {
  for (const int n : {1, 2, 5}) {
    run_ranks(n, [&](const std::shared_ptr<Ranks>& ranks) {
      check_collectives(ranks->world(), GetParam());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Each, testing::ValuesIn(kAllDtypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(ThreadCommunicator, MessagesOfAWayComeInTheirOrderAndMayCrossOthers) {
  run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) { check_messages(ranks->world()); });
  run_ranks(3, [](const std::shared_ptr<Ranks>& ranks) { check_many_under_way(ranks->world()); });
}

TEST(ThreadCommunicator, AMeshHasAGroupForEachAxis) {
  const Mesh mesh{{{"pipeline", 2}, {"data", 3}, {"tensor", 2}}};
  run_ranks(mesh, [&](const std::shared_ptr<Ranks>& ranks) {
    check_groups(*ranks);
    EXPECT_THAT(message_of<Error>([&] { ranks->along("context"); }), HasSubstr("no axis context"));
  });
}

TEST(ThreadCommunicator, RanksAlongDataAreGroupsOfNeighbours) {
  const Mesh mesh{{{"pipeline", 2}, {"data", 6}, {"tensor", 2}}, /*zero_group=*/3};
  EXPECT_EQ(mesh.size("replica"), 2);
  run_ranks(mesh, [&](const std::shared_ptr<Ranks>& ranks) {
    const auto members = [&](std::string_view axis) {
      Communicator& group = ranks->along(axis);
      std::vector<int32_t> all(static_cast<size_t>(group.size()));
      int32_t rank = ranks->rank();
      group
          .all_gather({&rank, 1, Dtype::kI32}, {all.data(), group.size(), Dtype::kI32},
                      std::vector<int64_t>(all.size(), 1), "")
          .wait();
      return all;
    };
    const auto place = static_cast<int32_t>(ranks->coordinate("data"));
    EXPECT_EQ(ranks->coordinate("zero"), place % 3);
    EXPECT_EQ(ranks->coordinate("replica"), place / 3);
    const std::vector<int32_t> along_data = members("data");
    const auto at = [&](int32_t i) { return along_data[static_cast<size_t>(i)]; };
    const int32_t first = place / 3 * 3;
    EXPECT_THAT(members("zero"), testing::ElementsAre(at(first), at(first + 1), at(first + 2)));
    EXPECT_THAT(members("replica"), testing::ElementsAre(at(place % 3), at(place % 3 + 3)));
  });
}

// Rounded after every addition where the sum is carried on in 16 bits, once otherwise.
TEST(Sums, AreFormedInTheOrderOfThePieces) {
  const float pieces[] = {1e8F, 1, -1e8F, 1};
  const void* const each[] = {&pieces[0], &pieces[1], &pieces[2], &pieces[3]};
  float sum = 0;
  reduce_in_order(Reduction::kSum, Dtype::kF32, each, {}, {&sum, 1, Dtype::kF32});
  EXPECT_EQ(sum, ((1e8F + 1.0F) + -1e8F) + 1.0F);
  float begun = 0.5F;
  reduce_in_order(Reduction::kSum, Dtype::kF32, each, {&begun, 1, Dtype::kF32},
                  {&begun, 1, Dtype::kF32});
  EXPECT_EQ(begun, (((0.5F + 1e8F) + 1.0F) + -1e8F) + 1.0F);
  const BFloat16 small[] = {BFloat16(256), BFloat16(1), BFloat16(1)};
  const void* const three[] = {&small[0], &small[1], &small[2]};
  BFloat16 once;
  reduce_in_order(Reduction::kSum, Dtype::kBF16, three, {}, {&once, 1, Dtype::kBF16});
  EXPECT_EQ(static_cast<float>(once), 258.0F);
  BFloat16 often(0);
  reduce_in_order(Reduction::kSum, Dtype::kBF16, three, {&often, 1, Dtype::kBF16},
                  {&often, 1, Dtype::kBF16});
  EXPECT_EQ(static_cast<float>(often), 256.0F);
  float wide = 0;
  reduce_in_order(Reduction::kSum, Dtype::kBF16, three, {&wide, 1, Dtype::kF32},
                  {&wide, 1, Dtype::kF32});
  EXPECT_EQ(wide, 258.0F);
}

// What the first rank to say something says.
std::string said(int ranks, double timeout, const std::function<void(Communicator&)>& f) {
  return message_of<CommError>([&] {
    run_ranks(Mesh{{{"data", ranks}}},
              [&](const std::shared_ptr<Ranks>& each) { f(each->along("data")); }, 1,
              {.timeout_seconds = timeout});
  });
}

TEST(ThreadCommunicator, ALateRankIsNamedWithTheCollective) {
  std::atomic<int> left = 2;
  EXPECT_THAT(
      said(3, 1,
           [&](Communicator& group) {
             if (group.rank() == 1) {
               while (left > 0) {  // until the others have given up
                 std::this_thread::sleep_for(std::chrono::milliseconds(1));
               }
               return;
             }
             struct Leave {
               std::atomic<int>& left;
               ~Leave() { --left; }
             } const leave{left};
             float x = 1;
             group
                 .all_reduce({&x, 1, Dtype::kF32}, {&x, 1, Dtype::kF32}, Reduction::kSum,
                             "all_reduce loss")
                 .wait();
           }),
      AllOf(HasSubstr("rank 1 has not come to all_reduce loss of data"), HasSubstr("within 1 s")));
}

TEST(ThreadCommunicator, ARankThatIsGoneIsNamedAtOnce) {
  EXPECT_THAT(message_of<CommError>([&] {
                run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
                  if (ranks->rank() == 0) {
                    ranks->world().barrier("barrier step 3");
                  }
                });
              }),
              HasSubstr("rank 1 is gone, and does not come to barrier step 3"));
  EXPECT_THAT(message_of<CommError>([&] {
                run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
                  if (ranks->rank() == 1) {
                    int32_t x = 0;
                    ranks->world().receive({&x, 1, Dtype::kI32}, 0, "receive activations").wait();
                  }
                });
              }),
              HasSubstr("rank 0 is gone, and does not come to receive activations"));
}

TEST(ThreadCommunicator, ErrorsOfARankAreTheFirstThatIsTold) {
  EXPECT_EQ(message_of<Error>([&] {
              run_ranks(3, [](const std::shared_ptr<Ranks>& ranks) {
                check(ranks->rank() != 2, "the disk is full");
                ranks->world().barrier("");
              });
            }),
            "the disk is full");
}

TEST(ThreadCommunicator, RanksThatCallDifferentThingsAreTold) {
  EXPECT_THAT(
      said(2, 60,
           [](Communicator& group) {
             float x[2] = {};
             const std::vector<int64_t> ones{1, 1};
             if (group.rank() == 0) {
               group
                   .all_reduce({x, 1, Dtype::kF32}, {x, 1, Dtype::kF32}, Reduction::kSum,
                               "all_reduce loss")
                   .wait();
             } else {
               group.all_gather({x, 1, Dtype::kF32}, {x, 2, Dtype::kF32}, ones, "all_gather norms")
                   .wait();
             }
           }),
      HasSubstr("rank 1 comes to all_gather norms where rank 0 comes to all_reduce loss"));
  EXPECT_THAT(said(2, 60,
                   [](Communicator& group) {
                     float x[2] = {};
                     const Elements mine{x, group.rank() + 1, Dtype::kF32};
                     group.all_reduce(mine, mine, Reduction::kSum, "all_reduce loss").wait();
                   }),
              HasSubstr("other numbers of elements"));
}

}  // namespace
}  // namespace mstrain
