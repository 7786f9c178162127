#include "suites/reinforcement/train/env_group.h"

#include <gtest/gtest.h>

namespace mstrain::reinforcement {
namespace {

// Where all of the 24 bits that count are set, of a row's first number and of its second.
TEST(Noise, OfTheGreatestBitsIsBelow1) {
  std::vector<float> noise(2);
  draw_noise(1, 205, 4027, 1, /*normal=*/false, 2, noise);
  EXPECT_EQ(noise[0], 1 - 0x1p-24F);
  draw_noise(5, 157, 3735, 1, /*normal=*/false, 2, noise);
  EXPECT_EQ(noise[1], 1 - 0x1p-24F);
}

}  // namespace
}  // namespace mstrain::reinforcement
