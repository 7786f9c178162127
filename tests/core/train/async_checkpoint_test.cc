// Checkpoints that are written beside training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/base/files_fault.h"
#include "tests/core/base/message_of.h"
#include "tests/core/train/fit.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

// Holds up the writing of one checkpoint until it is told to go on.
class SlowDisk final : public FileSystem {
 public:
  SlowDisk(FileSystem& inner, std::string slow) : inner_(inner), slow_(std::move(slow)) {}
  void go_on() {
    const std::lock_guard lock(mutex_);
    may_go_on_ = true;
    changed_.notify_all();
  }
  bool gave_up() const { return gave_up_; }
  bool was_slow() const { return was_slow_; }

  std::unique_ptr<WritableFile> open(const std::string& path, WriteMode mode) override {
    if (path.find(slow_) != std::string::npos && path.ends_with(kModelFile)) {
      std::unique_lock lock(mutex_);
      was_slow_ = true;
      gave_up_ = !changed_.wait_for(lock, std::chrono::seconds(20), [&] { return may_go_on_; });
    }
    return inner_.open(path, mode);
  }
  std::unique_ptr<PlacedFile> open_placed(const std::string& p) override {
    return inner_.open_placed(p);
  }
  std::string read(const std::string& p, uint64_t n) override { return inner_.read(p, n); }
  std::unique_ptr<MappedFile> map(const std::string& p) override { return inner_.map(p); }
  bool exists(const std::string& p) override { return inner_.exists(p); }
  bool is_directory(const std::string& p) override { return inner_.is_directory(p); }
  std::vector<std::string> list(const std::string& p) override { return inner_.list(p); }
  uint64_t file_size(const std::string& p) override { return inner_.file_size(p); }
  uint64_t free_space(const std::string& p) override { return inner_.free_space(p); }
  void create_directories(const std::string& p) override { inner_.create_directories(p); }
  void rename(const std::string& a, const std::string& b) override { inner_.rename(a, b); }
  bool exchange(const std::string& a, const std::string& b) override {
    return inner_.exchange(a, b);
  }
  void truncate(const std::string& p, uint64_t n) override { inner_.truncate(p, n); }
  void remove(const std::string& p) override { inner_.remove(p); }
  void remove_all(const std::string& p) override { inner_.remove_all(p); }
  void sync_directory(const std::string& p) override { inner_.sync_directory(p); }
  std::unique_ptr<FileLock> try_lock(const std::string& p) override { return inner_.try_lock(p); }

 private:
  FileSystem& inner_;
  std::string slow_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_go_on_ = false;
  std::atomic<bool> gave_up_ = false;
  std::atomic<bool> was_slow_ = false;
};

TEST_F(Fit, TrainingGoesOnWhileACheckpointIsWritten) {
  TrainConfig straight = small_config(folder_ / "straight");
  straight.checkpoint.async = false;
  run_small(straight);
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.async = true;
  SlowDisk disk(real_files(), checkpoint_name(5));
  // The write of step 5 goes on when step 9 has begun, whose updates it must not see.
  const auto hook = [&](int64_t sample) {
    if (sample >= 8 * 8) {
      disk.go_on();
    }
  };
  config.checkpoint.keep = 4;
  EXPECT_EQ(run_small(config, disk, small_data(hook)).outcome, Outcome::kFinished);
  EXPECT_TRUE(disk.was_slow());
  EXPECT_FALSE(disk.gave_up());
  for (const int64_t step : {10, 15, 20}) {
    EXPECT_EQ(checkpoint_file(straight.run.directory(), step, "MANIFEST.json"),
              checkpoint_file(config.run.directory(), step, "MANIFEST.json"));
  }
  // Of step 5 the run that waited kept nothing; it is computed again.
  TrainConfig short_run = small_config(folder_ / "short");
  short_run.schedule = straight.schedule;
  std::atomic<bool> stop = false;
  const auto stop_there = [&](int64_t sample) { stop = sample >= 4 * 8; };
  run_small(short_run, real_files(), small_data(stop_there), small_task(), &stop);
  EXPECT_EQ(checkpoint_file(short_run.run.directory(), 5, "MANIFEST.json"),
            checkpoint_file(config.run.directory(), 5, "MANIFEST.json"));
}

TEST_F(Fit, AFailedWriteEndsTheRunSoonAndLeavesTheCheckpointBefore) {
  class Broken final : public Callback {
   public:
    explicit Broken(FaultyFiles& files) : files_(files) {}
    void on_save(Trainer&, int64_t step, const std::string&) override {
      if (step == 5) {
        files_.reset({.enospc_after_bytes = 900});
      }
    }
    void on_step(Trainer&, const StepMetrics& metrics) override { last = metrics.step; }
    int64_t last = 0;

   private:
    FaultyFiles& files_;
  };
  TrainConfig config = small_config(folder_ / "run");
  config.checkpoint.async = true;
  config.schedule.total_steps = 100000;
  config.log.interval = 1000000;
  config.eval.interval = 1000000;
  FaultyFiles files(real_files());
  Broken broken(files);
  const std::atomic<bool> never = false;
  const std::string message = message_of<IoError>([&] {
    train(files, config, resolved(config), small_task(), small_data(),
          [](const RunPlan&, int64_t) { FAIL(); }, never, {&broken});
  });
  EXPECT_THAT(message, HasSubstr("No space left on device"));
  EXPECT_LE(broken.last, 20);  // the write of step 10 at the latest when the next one is due
  const auto newest =
      newest_checkpoint(real_files(), join_path(config.run.directory(), "checkpoints"), false);
  ASSERT_TRUE(newest.has_value());
  EXPECT_THAT(*newest, testing::EndsWith(checkpoint_name(5)));
}

}  // namespace
}  // namespace mstrain
