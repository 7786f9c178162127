#include "suites/reinforcement/train/steps_on_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/files_fault.h"
#include "tests/amount.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/suites/reinforcement/train/runs.h"

namespace mstrain::reinforcement {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr StoreShape kShape{.steps = 50, .rows = 3, .numbers = 5};  // files of three steps

float number(int64_t step, int64_t row, int64_t i) {
  return static_cast<float>(step * 100 + row * 10 + i);
}

class StepsOnDiskTest : public testing::Test {
 protected:
  std::unique_ptr<StepsOnDisk> store(FileSystem& files = real_files()) {
    return std::make_unique<StepsOnDisk>(kShape, files, directory_);
  }
  static void add(StepStore& to, int64_t steps) {
    for (int64_t s = 0; s < steps; ++s) {
      std::vector<float> step;
      for (int64_t at = 0; at < kShape.step_numbers(); ++at) {
        step.push_back(number(to.added(), at / kShape.numbers, at % kShape.numbers));
      }
      to.add(step);
    }
  }
  static void expect_all(const StepStore& of) {
    for (int64_t step = of.oldest(); step < of.added(); ++step) {
      for (int64_t row = 0; row < kShape.rows; ++row) {
        const auto values = of.at(step, row);
        ASSERT_EQ(values.size(), 5U);
        ASSERT_EQ(values.front(), number(step, row, 0));
        ASSERT_EQ(values.back(), number(step, row, 4));
      }
    }
  }
  static std::string saved(const StepStore& of) {
    ByteWriter out;
    of.save(out);
    std::string bytes = out.take();
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), of.saved_bytes());
    return bytes;
  }
  static void load(StepStore& into, const std::string& bytes) {
    ByteReader in(bytes, "steps");
    into.load(in);
    in.expect_end();
  }

  TemporaryFolder folder_;
  std::string directory_ = folder_ / "replay";
};

TEST_F(StepsOnDiskTest, GivesBackTheNewestSteps) {
  ASSERT_EQ(StepsOnDisk::steps_of_file(kShape), 3);
  const auto steps = store();
  for (int64_t i = 0; i < 120; ++i) {
    add(*steps, 1);
    expect_all(*steps);
  }
  EXPECT_EQ(steps->oldest(), 70);
}

TEST_F(StepsOnDiskTest, GoesOnFromAnyStateWhoseFilesWereNotReleased) {
  for (const int64_t at : {1, 3, 50, 62, 101}) {
    auto steps = store();
    add(*steps, at);
    const std::string state = saved(*steps);
    steps->release(at);
    add(*steps, 53);  // which a kill makes undone
    auto again = store();
    load(*again, state);
    EXPECT_EQ(again->added(), at);
    expect_all(*again);
    add(*again, 40);
    expect_all(*again);
  }
}

TEST_F(StepsOnDiskTest, KeepsFilesThatACheckpointNeedsAndNoOthers) {
  const auto steps = store();
  const auto files = [&] { return real_files().list(directory_); };
  add(*steps, 150);
  EXPECT_EQ(files().size(), 50U);
  steps->release(126);  // whose oldest step is 76
  EXPECT_EQ(files().size(), 25U);
  EXPECT_EQ(files().front(), "steps-000000000075.bin");
  real_files().open(join_path(directory_, "steps-mine"), WriteMode::kTruncate)->close();
  add(*store(), 1);  // a run that begins anew
  EXPECT_EQ(files(), std::vector<std::string>{"steps-mine"});
}

TEST_F(StepsOnDiskTest, NamesAFileThatIsMissingOrNotAsItWas) {
  auto steps = store();
  add(*steps, 60);
  const std::string state = saved(*steps);
  const std::string path = join_path(directory_, "steps-000000000042.bin");
  std::string bytes = real_files().read(path);
  bytes[17] ^= 1;
  write_file_atomic(real_files(), path, bytes);
  const auto again = [&] { load(*store(), state); };
  EXPECT_THAT(again, ThrowsMessage<IoError>(HasSubstr("042.bin: does not hold the steps")));
  real_files().remove(path);
  EXPECT_THAT(again, ThrowsMessage<IoError>(HasSubstr("042.bin")));
}

// 100 steps of two environments, in files of three of each.
constexpr const char* kOnDisk =
    "algorithm: {type: dqn, buffer_size: 100, learning_starts: 32, batch_size: 16, n_step: 2, "
    "prioritised: true, buffer_on: disk}\n"
    "environment: {name: cartpole, num_envs: 2}\n"
    "network: {hidden: [16], activation: relu}\n"
    "schedule: {total_env_steps: 320}\n"
    "checkpoint: {interval: 64}\n"
    "eval: {interval: 128, episodes: 3}\n"
    "log: {interval: 64}\n";

void expect_same_weights(const std::string& a, const std::string& b) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_TRUE(checkpoint_file(a, file) == checkpoint_file(b, file)) << file;
  }
}

class RunOnDisk : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(RunOnDisk, HasTheBitsOfOneInMemory) {
  const std::vector<std::vector<std::string>> kinds = {
      {},
      {"environment.name=t_maze", "network.memory=8", "algorithm.unroll=4"},
      {"environment.name=pendulum", "algorithm.type=sac", "algorithm.prioritised=false"}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string disk = folder_ / fmt::format("disk{}", i),
                      memory = folder_ / fmt::format("memory{}", i);
    run_agent(kOnDisk, disk, kinds[i]);
    std::vector<std::string> changes = kinds[i];
    changes.push_back("algorithm.buffer_on=memory");
    run_agent(kOnDisk, memory, changes);
    expect_same_weights(disk, memory);
    EXPECT_FALSE(real_files().exists(join_path(memory, "replay")));
  }
}

// The process ends without a word, and so does the machine, whose unwritten bytes are lost; the run goes on each time.
TEST_F(RunOnDisk, LosesNothingWhenItDies) {
  run_agent(kOnDisk, folder_ / "straight");
  FaultyFiles files(real_files());
  const std::string directory = folder_ / "dying";
  int64_t deaths = 0;
  for (int64_t n = 0;; n += long_tests() ? 7 : 233) {
    real_files().remove_all(directory);
    files.reset({.power_off_operation = n});
    try {
      run_agent(kOnDisk, directory, {}, files);
      break;
    } catch (const IoError&) {
      ++deaths;
    }
    if (deaths % 2 == 0) {
      files.crash();
    }
    run_agent(kOnDisk, directory);
    expect_same_weights(folder_ / "straight", directory);
  }
  EXPECT_GT(deaths, 3);
}

TEST_F(RunOnDisk, AFullDiskIsAnErrorAndTheRunGoesOnWhenThereIsRoom) {
  run_agent(kOnDisk, folder_ / "straight");
  FaultyFiles files(real_files());
  run_agent(kOnDisk, folder_ / "all", {}, files);
  const int64_t all = files.bytes_written();
  const std::string directory = folder_ / "full";
  for (const int64_t part : {2, 3, 5}) {
    real_files().remove_all(directory);
    files.reset({.enospc_after_bytes = all * part / 6, .short_writes = true});
    try {
      run_agent(kOnDisk, directory, {}, files);
      ADD_FAILURE() << "the disk was not full";
    } catch (const IoError& error) {
      EXPECT_EQ(error.error_number(), ENOSPC);
      EXPECT_THAT(error.what(), HasSubstr(directory));
    }
    run_agent(kOnDisk, directory);
    expect_same_weights(folder_ / "straight", directory);
  }
}

}  // namespace
}  // namespace mstrain::reinforcement
