#include "core/base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace mstrain {
namespace {

TEST(Hash, NeverChangesBetweenReleases) {
  // Cache entries on disk are named by these.
  EXPECT_EQ(to_string(hash_bytes("")), "ff53b5733e72e090708354a2f30ee963");
  EXPECT_EQ(to_string(hash_bytes("mstrain")), "927628a22137b44a17473f7539c51b8b");
  EXPECT_EQ(to_string(Hasher(7).add(1).add("two").add(3.0).finish()),
            "57c1631b6dbceec0a7199f626314c3e4");
}

TEST(Hash, FramesValues) {
  EXPECT_NE(Hasher().add("ab").add("c").finish(), Hasher().add("a").add("bc").finish());
  EXPECT_NE(Hasher().add("").finish(), Hasher().finish());
  EXPECT_NE(Hasher().add("a").finish(), Hasher().add(std::string_view("a\0", 2)).finish());
  EXPECT_NE(Hasher(1).finish(), Hasher(2).finish());
  EXPECT_EQ(Hasher().add(int8_t{-1}).finish(), Hasher().add(int64_t{-1}).finish());
}

TEST(Hash, EveryInputBitReachesHalfOfTheOutput) {
  std::string text(24, '\0');
  const Hash128 base = hash_bytes(text);
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(1U << (bit % 8));
    const Hash128 hash = hash_bytes(other);
    EXPECT_NEAR(std::popcount(hash.lo ^ base.lo), 32, 20) << bit;
    EXPECT_NEAR(std::popcount(hash.hi ^ base.hi), 32, 20) << bit;
  }
}

TEST(Hash, SmallIntegersDoNotCollide) {
  std::set<uint64_t> combined;
  std::set<Hash128> wide;
  for (uint64_t i = 0; i < 100; ++i) {
    for (uint64_t j = 0; j < 100; ++j) {
      combined.insert(hash_combine(hash_combine(0, i), j));
      wide.insert(Hasher().add(i).add(j).finish());
    }
  }
  EXPECT_EQ(combined.size(), 10000U);
  EXPECT_EQ(wide.size(), 10000U);
}

}  // namespace
}  // namespace mstrain
