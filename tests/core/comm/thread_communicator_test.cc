// Collectives of threads against plain loops, and what ranks are told of others that fail them.
#include "core/comm/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>

#include "core/base/rng.h"
#include "core/comm/sums.h"
#include "tests/core/base/message_of.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Elements of any type, small whole numbers, so that sums of any order are equal.
class Numbers {
 public:
  Numbers(Dtype dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(static_cast<size_t>(count * size_of(dtype))) {}
  Elements elements() { return {bytes_.data(), count_, dtype_}; }
  void set(int64_t i, int value) {
    visit_dtype(dtype_, [&]<class T>(T) {
      T x;
      if constexpr (std::is_class_v<T>) {
        x = T(static_cast<float>(value));
      } else {
        x = static_cast<T>(value);
      }
      std::memcpy(bytes_.data() + static_cast<size_t>(i) * sizeof(T), &x, sizeof(T));
    });
  }
  int at(int64_t i) const {
    return visit_dtype(dtype_, [&]<class T>(T) -> int {
      T x;
      std::memcpy(&x, bytes_.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      if constexpr (std::is_class_v<T>) {
        return static_cast<int>(static_cast<float>(x));
      } else {
        return static_cast<int>(x);
      }
    });
  }

 private:
  Dtype dtype_;
  int64_t count_;
  std::vector<std::byte> bytes_;
};

int value_of(Dtype dtype, int rank, int64_t i) {
  const int value = static_cast<int>((rank * 7 + i * 3) % 11);
  return dtype == Dtype::kBool ? value % 2 : value;
}

int sum_of(Dtype dtype, int ranks, int64_t i) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) {
    sum += value_of(dtype, r, i);
  }
  return dtype == Dtype::kBool ? std::min(sum, 1) : sum;
}

Numbers numbers_of(Dtype dtype, int rank, int64_t count) {
  Numbers numbers(dtype, count);
  for (int64_t i = 0; i < count; ++i) {
    numbers.set(i, value_of(dtype, rank, i));
  }
  return numbers;
}

// Some ranks come late.
void dawdle(Rng& rng) {
  if (rng.below(3) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(300)));
  }
}

class Each : public testing::TestWithParam<Dtype> {};

TEST_P(Each, CollectivesDoWhatALoopDoes) {
  const Dtype dtype = GetParam();
  for (const int n : {1, 2, 5}) {
    run_ranks(n, [&](const std::shared_ptr<Ranks>& ranks) {
      Communicator& world = ranks->world();
      const int me = world.rank();
      Rng rng(static_cast<uint64_t>(me));
      // Uneven pieces, the second one empty.
      std::vector<int64_t> counts;
      for (int r = 0; r < n; ++r) {
        counts.push_back(r == 1 ? 0 : 3 * r + 2);
      }
      const auto first = [&](int rank) {
        return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
      };
      const int64_t total = first(n);
      const int64_t mine = counts[static_cast<size_t>(me)];

      Numbers in = numbers_of(dtype, me, total);
      Numbers sums(dtype, total);
      dawdle(rng);
      world.all_reduce(in.elements(), sums.elements(), Reduction::kSum, "sums").wait();
      Numbers largest = in;
      world.all_reduce(largest.elements(), largest.elements(), Reduction::kMax, "in place").wait();
      Numbers piece(dtype, mine);
      dawdle(rng);
      world.reduce_scatter(in.elements(), piece.elements(), counts, Reduction::kSum, "pieces")
          .wait();
      Numbers own = numbers_of(dtype, me, mine);
      Numbers all(dtype, total);
      const Event gathered = world.all_gather(own.elements(), all.elements(), counts, "own");
      Numbers told = numbers_of(dtype, me, 4);
      const Event sent_to_all = world.broadcast(told.elements(), n - 1, "told");
      sent_to_all.wait();
      gathered.wait();
      for (int64_t i = 0; i < total; ++i) {
        ASSERT_EQ(sums.at(i), sum_of(dtype, n, i));
        int most = 0;
        for (int r = 0; r < n; ++r) {
          most = std::max(most, value_of(dtype, r, i));
        }
        ASSERT_EQ(largest.at(i), most);
      }
      for (int64_t i = 0; i < mine; ++i) {
        ASSERT_EQ(piece.at(i), sum_of(dtype, n, first(me) + i));
      }
      for (int r = 0; r < n; ++r) {
        for (int64_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) {
          ASSERT_EQ(all.at(first(r) + i), value_of(dtype, r, i));
        }
      }
      for (int64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(told.at(i), value_of(dtype, n - 1, i));
      }
      // Rank a sends a + b elements to rank b.
      std::vector<int64_t> sends;
      for (int r = 0; r < n; ++r) {
        sends.push_back(me + r);
      }
      const int64_t count = std::accumulate(sends.begin(), sends.end(), int64_t{0});
      Numbers from = numbers_of(dtype, me, count);
      Numbers to(dtype, count);
      dawdle(rng);
      world.all_to_all(from.elements(), to.elements(), sends, sends, "each to each").wait();
      int64_t place = 0;
      for (int r = 0; r < n; ++r) {
        int64_t skipped = 0;
        for (int k = 0; k < me; ++k) {
          skipped += r + k;
        }
        for (int64_t i = 0; i < r + me; ++i) {
          ASSERT_EQ(to.at(place++), value_of(dtype, r, skipped + i));
        }
      }
      world.barrier("end");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Each, testing::ValuesIn(kAllDtypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(ThreadCommunicator, MessagesOfAWayComeInTheirOrderAndMayCrossOthers) {
  run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    Communicator& world = ranks->world();
    const int peer = 1 - world.rank();
    std::vector<int32_t> out{10 * world.rank(), 10 * world.rank() + 1};
    std::vector<int32_t> in(2);
    std::vector<Event> events;
    for (size_t i = 0; i < 2; ++i) {
      events.push_back(world.send({&out[i], 1, Dtype::kI32}, peer, "out"));
    }
    for (size_t i = 0; i < 2; ++i) {
      events.push_back(world.receive({&in[i], 1, Dtype::kI32}, peer, "in"));
    }
    for (const Event& event : events) {
      event.wait();
    }
    EXPECT_THAT(in, testing::ElementsAre(10 * peer, 10 * peer + 1));
  });
}

TEST(ThreadCommunicator, AMeshHasAGroupForEachAxis) {
  const Mesh mesh{{{"pipeline", 2}, {"data", 3}, {"tensor", 2}}};
  run_ranks(mesh, [&](const std::shared_ptr<Ranks>& ranks) {
    for (const MeshAxis& axis : mesh.axes) {
      Communicator& group = ranks->along(axis.name);
      ASSERT_EQ(group.size(), axis.size);
      EXPECT_EQ(group.rank(), ranks->coordinate(axis.name));
      EXPECT_EQ(group.name(), axis.name);
      // The group's ranks differ in this coordinate alone.
      std::vector<int32_t> all(static_cast<size_t>(axis.size));
      int32_t rank = ranks->rank();
      const std::vector<int64_t> ones(all.size(), 1);
      group.all_gather({&rank, 1, Dtype::kI32}, {all.data(), axis.size, Dtype::kI32}, ones, "")
          .wait();
      for (size_t i = 0; i < all.size(); ++i) {
        for (const MeshAxis& other : mesh.axes) {
          EXPECT_EQ(mesh.coordinate(all[i], other.name),
                    other == axis ? static_cast<int64_t>(i) : ranks->coordinate(other.name));
        }
      }
    }
    EXPECT_THAT(message_of<Error>([&] { ranks->along("context"); }), HasSubstr("no axis context"));
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

// What the first rank to say something says, with a deadline of a tenth of a second.
std::string said(int ranks, const std::function<void(Communicator&)>& f) {
  return message_of<CommError>([&] {
    run_ranks(Mesh{{{"data", ranks}}},
              [&](const std::shared_ptr<Ranks>& each) { f(each->along("data")); }, 1,
              {.timeout_seconds = 0.1});
  });
}

TEST(ThreadCommunicator, ALateRankIsNamedWithTheCollective) {
  std::atomic<int> left = 2;
  EXPECT_THAT(said(3,
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
              AllOf(HasSubstr("rank 1 has not come to all_reduce loss of data"),
                    HasSubstr("within 0.1 s")));
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
      said(2,
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
  EXPECT_THAT(said(2,
                   [](Communicator& group) {
                     float x[2] = {};
                     const Elements mine{x, group.rank() + 1, Dtype::kF32};
                     group.all_reduce(mine, mine, Reduction::kSum, "all_reduce loss").wait();
                   }),
              HasSubstr("other numbers of elements"));
}

}  // namespace
}  // namespace mstrain
