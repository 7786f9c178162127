#include "suites/reinforcement/train/evaluation.h"

#include <gtest/gtest.h>

#include "tests/suites/reinforcement/env/envs.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

// Does the first action, and keeps what it sees.
class Onlooker final : public Player {
 public:
  std::vector<std::vector<float>> seen;
  void act(std::span<const float> observations, std::span<const uint8_t>, std::span<float> actions,
           std::span<float>) override {
    seen.emplace_back(observations.begin(), observations.end());
    std::ranges::fill(actions, 0);
  }
};

std::vector<std::vector<float>> seen_in_evaluation(int64_t episodes, int64_t frame_stack) {
  know_all();
  const EnvConfig config{
      .name = "cartpole", .frame_stack = frame_stack, .normalize_observations = true};
  const auto trained = make_env(config, 8);
  trained->reset(1, 0);
  Rng rng(3);
  for (int t = 0; t < 50; ++t) {
    step_of(*trained, draw_actions(*trained, rng).view());
  }
  Onlooker player;
  const std::atomic<bool> stop = false;
  evaluate(config, episodes, 5, player, trained.get(), stop);
  return player.seen;
}

TEST(Evaluation, StacksFramesThatAreOnTheScaleOfTheTraining) {
  constexpr int64_t kStacked = 3;
  for (const int64_t episodes : {1, 2}) {
    const auto single = seen_in_evaluation(episodes, 1);
    const auto stacked = seen_in_evaluation(episodes, kStacked);
    ASSERT_EQ(stacked.size(), single.size());
    const size_t one = single.front().size() / static_cast<size_t>(episodes);
    for (size_t step = 0; step < 5; ++step) {  // no episode of cartpole is as short
      std::vector<float> expected;
      for (size_t env = 0; env < static_cast<size_t>(episodes); ++env) {
        for (size_t back = kStacked; back-- > 0;) {
          const std::vector<float>& then = single[step - std::min(step, back)];
          const auto begin = then.begin() + static_cast<ptrdiff_t>(env * one);
          expected.insert(expected.end(), begin, begin + static_cast<ptrdiff_t>(one));
        }
      }
      EXPECT_EQ(stacked[step], expected) << episodes << " episodes, step " << step;
    }
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
