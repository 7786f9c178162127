#include "suites/reinforcement/train/policy_programs.h"

#include <gtest/gtest.h>

#include "core/mstrain.h"

namespace mstrain::reinforcement {
namespace {

// However a run's environments are shared by actors, their actions are the same.
TEST(PolicyPrograms, RowsAreIndependentBitForBit) {
  constexpr size_t kRows = 29;
  for (const int64_t width : {16, 64, 100, 256}) {
    const EnvSpec env{
        .name = "x", .observation = Space::box(Shape{5}, -1, 1), .action = Space::discrete(3)};
    const ActorCritic network(env, {.hidden = {width, width}});
    const Params params = init_params(network.specs(), 3);
    PolicyPrograms policy(network, params);
    const std::vector<float> x = to_vector<float>(normal(rng_key(1), {kRows, 5}));
    const std::vector<float> noise = to_vector<float>(uniform(rng_key(2), {kRows, 3}));
    const auto decide = [&](size_t begin, size_t n, std::span<float> out) {
      policy.decide(std::span(x).subspan(begin * 5, n * 5),
                    std::span(noise).subspan(begin * 3, n * 3), {}, out.subspan(begin, n),
                    out.subspan(kRows + begin, n), out.subspan(2 * kRows + begin, n));
    };
    std::vector<float> whole(3 * kRows);
    decide(0, kRows, whole);
    for (const size_t n : {1, 2, 3, 5, 8, 16}) {
      std::vector<float> joined(3 * kRows);
      for (size_t begin = 0; begin < kRows; begin += n) {
        decide(begin, std::min(n, kRows - begin), joined);
      }
      EXPECT_EQ(joined, whole) << width << " wide, in parts of " << n;
    }
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
