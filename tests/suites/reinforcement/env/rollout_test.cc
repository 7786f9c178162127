#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/io/safetensors.h"
#include "suites/reinforcement/env/rollout.h"
#include "tests/suites/reinforcement/env/envs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Input {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

template <class T>
Input input(const std::string& name, Dtype dtype, const std::vector<int64_t>& shape,
            const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {name, dtype, shape, {bytes.begin(), bytes.end()}};
}

class Rollout : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "rollout_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
    env_of("cartpole", 1);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void run(const std::string& name, const std::vector<Input>& inputs) {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (const Input& each : inputs) {
      tensors.push_back({each.name, each.dtype, each.shape});
    }
    SafetensorsWriter writer(real_files(), dir_ + "/in", tensors);
    for (const TensorEntry& entry : writer.entries()) {
      for (const Input& each : inputs) {
        if (each.name == entry.name) {
          writer.append(entry.name, each.bytes);
        }
      }
    }
    writer.finish();
    RolloutRequest request{.input = dir_ + "/in", .output = dir_ + "/out"};
    request.environment.name = name;
    rollout(real_files(), request);
  }
  template <class T>
  std::vector<T> result(const std::string& name, const std::vector<int64_t>& shape) {
    const SafetensorsFile file(real_files(), dir_ + "/out");
    EXPECT_EQ(file.at(name).shape, shape);
    std::vector<T> out(file.data(name).size() / sizeof(T));
    std::memcpy(out.data(), file.data(name).data(), file.data(name).size());
    return out;
  }
  std::string dir_;
};

TEST_F(Rollout, TruncatesAtTheLimitCountedFromItsFirstStepAndRepeatsTheLastRow) {
  run("pendulum",
      {input<double>("state", Dtype::kF64, {2, 2}, {0.1, 0, 3, -1}),
       input<double>("actions", Dtype::kF64, {203, 2, 1}, std::vector<double>(406, 0.5))});
  const auto truncated = result<uint8_t>("truncated", {203, 2});
  for (size_t t = 0; t < 203; ++t) {
    EXPECT_EQ(truncated[t * 2], t >= 199 ? 1 : 0) << t;
  }
  const auto observations = result<float>("observations", {203, 2, 3});
  EXPECT_TRUE(std::equal(observations.end() - 6, observations.end(), observations.end() - 24));
  EXPECT_FALSE(
      std::equal(observations.end() - 24, observations.end() - 18, observations.end() - 30));
  const auto rewards = result<float>("rewards", {203, 2});
  EXPECT_EQ(rewards[202 * 2], rewards[199 * 2]);
  for (uint8_t flag : result<uint8_t>("terminated", {203, 2})) {
    EXPECT_EQ(flag, 0);
  }
}

TEST_F(Rollout, NamesWhatIsWrongWithATensor) {
  const auto state = input<double>("state", Dtype::kF64, {1, 4}, {0, 0, 0, 0});
  const auto actions = input<int64_t>("actions", Dtype::kI64, {2, 1}, {0, 1});
  EXPECT_THAT([&] { run("cartpole", {state}); },
              ThrowsMessage<Error>(HasSubstr("has no tensor actions; expected I64 [t, 1]")));
  EXPECT_THAT([&] { run("cartpole", {actions}); },
              ThrowsMessage<Error>(HasSubstr("has no tensor state; expected F64 [n, 4]")));
  EXPECT_THAT(
      [&] {
        run("acrobot", {input<double>("state", Dtype::kF64, {1, 3}, {0, 0, 0}), actions});
      },
      ThrowsMessage<Error>(HasSubstr("state is F64 [1, 3], expected F64 [n, 4]")));
  EXPECT_THAT(
      [&] {
        run("cartpole", {state, input<int64_t>("actions", Dtype::kI64, {1, 2}, {0, 1})});
      },
      ThrowsMessage<Error>(HasSubstr("actions is I64 [1, 2], expected I64 [t, 1]")));
  EXPECT_THAT(
      [&] {
        run("cartpole", {state, input<float>("actions", Dtype::kF32, {1, 1}, {0})});
      },
      ThrowsMessage<Error>(HasSubstr("actions is F32 [1, 1], expected I64 [t, 1]")));
  EXPECT_THAT(
      [&] {
        run("cartpole", {state, actions, input<float>("action", Dtype::kF32, {1}, {0})});
      },
      ThrowsMessage<Error>(HasSubstr("no tensor action; did you mean actions?")));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out"));
}

TEST_F(Rollout, NamesEnvironmentAndStepOfWhatIsWrongWithAnAction) {
  const auto state = input<double>("state", Dtype::kF64, {2, 4}, std::vector<double>(8));
  EXPECT_THAT(
      [&] {
        run("cartpole", {state, input<int64_t>("actions", Dtype::kI64, {2, 2}, {0, 1, 0, -1})});
      },
      ThrowsMessage<Error>(HasSubstr("cartpole: action -1 of environment 1 at step 2")));
  EXPECT_THAT(
      [&] {
        run("pendulum", {input<double>("state", Dtype::kF64, {1, 2}, {0, std::nan("")}),
                         input<double>("actions", Dtype::kF64, {1, 1, 1}, {0})});
      },
      ThrowsMessage<Error>(HasSubstr("number 1 of the state of environment 0 is nan")));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out"));
}

}  // namespace
}  // namespace mstrain::reinforcement
