#include "suites/reinforcement/train/joint_envs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "suites/reinforcement/train/messages.h"
#include "tests/ranks.h"
#include "tests/suites/reinforcement/train/on_a_line.h"

namespace mstrain::reinforcement {
namespace {

using testing::Each;

struct Failing : OnALine {
  static EnvSpec spec() { return spec_of("failing", 8); }
  bool step(std::span<const int64_t>, EnvRandom&, std::span<float>) { fail("no step"); }
};

TEST(JointEnvs, AStepThatFailsKeepsItsMessagesUntilTheyAreThrough) {
  add_environment<Failing>();
  EnvConfig config;
  config.name = "failing";
  std::atomic<bool> left = false;
  run_ranks(2, [&](const std::shared_ptr<Ranks>& ranks) {
    Communicator& world = ranks->world();
    EnvGroup own(config, 1, 0, ranks->rank());
    if (ranks->rank() == 0) {
      JointEnvs envs(own.spec(), &own, 1, 0, world);
      std::vector<float> actions(2, 1);
      EXPECT_THROW(envs.step(actions), Error);
      left = true;
      actions.assign(2, 7);
      world.barrier("end");
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(left);
    std::vector<float> actions(1);
    world.receive({actions.data(), 1, Dtype::kF32}, 0, "actions").wait();
    EXPECT_THAT(actions, Each(1));
    std::string message(static_cast<size_t>(step_message_bytes(own.spec(), 1)), 0);
    world.send(octets(message), 0, "steps").wait();
    world.barrier("end");
  });
}

}  // namespace
}  // namespace mstrain::reinforcement
