// The largest tree there may be.
#include "mcts/search/arena.h"

#include <gtest/gtest.h>

namespace mstrain::mcts {
namespace {

// Nothing of it is touched, so it takes addresses alone.
TEST(Arena, EndsWithinItsIndicesWhereItIsFull) {
  constexpr size_t kLimit = size_t{1} << 34U;
  Arena arena(kLimit);
  EXPECT_GT(arena.limit_bytes(), kLimit - 64);
  const uint64_t left = arena.limit_bytes() / Arena::kWord - arena.end();
  EXPECT_EQ(arena.allocate(static_cast<uint32_t>(left)), Arena::kFirst);
  EXPECT_EQ(arena.end(), arena.limit_bytes() / Arena::kWord);
  EXPECT_EQ(arena.used_bytes(), left * Arena::kWord);
  EXPECT_EQ(arena.allocate(1), 0U);
}

}  // namespace
}  // namespace mstrain::mcts
