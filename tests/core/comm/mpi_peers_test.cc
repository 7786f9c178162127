#include "core/comm/mpi_peers.h"

#include <gtest/gtest.h>

namespace mstrain {
namespace {

// Ranks of this machine that may each run on the processors of a mask.
std::vector<ProcessPlace> places(std::initializer_list<unsigned> masks) {
  std::vector<ProcessPlace> out;
  for (const unsigned mask : masks) {
    ProcessPlace place = this_place();
    CPU_ZERO(&place.processors);
    for (int i = 0; i < 32; ++i) {
      if ((mask >> i & 1U) != 0) {
        CPU_SET(i, &place.processors);
      }
    }
    out.push_back(place);
  }
  return out;
}

TEST(MpiPeers, ProcessesTakeTurnsWhereTheyAreMoreThanTheirProcessors) {
  EXPECT_FALSE(MpiPeers(places({0b1}), 0).take_turns());
  EXPECT_FALSE(MpiPeers(places({0b01, 0b10}), 0).take_turns());
  EXPECT_FALSE(MpiPeers(places({0b11, 0b11}), 1).take_turns());
  EXPECT_TRUE(MpiPeers(places({0b01, 0b01}), 0).take_turns());
  EXPECT_TRUE(MpiPeers(places({0b01, 0b10, 0b01, 0b10}), 3).take_turns());
  EXPECT_TRUE(MpiPeers(places({0b11, 0b11, 0b11}), 2).take_turns());
}

TEST(MpiPeers, ProcessesOfOtherMachinesTakeNobodysTurn) {
  std::vector<ProcessPlace> two = places({0b1, 0b1});
  two[1].boot[0] = 'x';
  EXPECT_FALSE(MpiPeers(two, 0).take_turns());
  EXPECT_FALSE(MpiPeers(two, 1).take_turns());
}

TEST(MpiPeers, SayWhereTheyMayRun) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const ProcessPlace here = this_place();
  EXPECT_TRUE(CPU_EQUAL(&here.processors, &mine));
}

}  // namespace
}  // namespace mstrain
