#include "core/base/wait.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace mstrain {
namespace {

using std::chrono::milliseconds;

TEST(Wait, EndsWhenItIsDoneOrLate) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::unique_lock lock(mutex);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait_with_deadline(changed, lock, 0.3, [&] { return done; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(299));
  std::thread other([&] {
    const std::lock_guard guard(mutex);
    done = true;
    changed.notify_all();
  });
  EXPECT_TRUE(wait_with_deadline(changed, lock, 60, [&] { return done; }));
  EXPECT_TRUE(wait_with_deadline(changed, lock, 0, [&] { return done; }));
  lock.unlock();
  other.join();
}

// Stopped for longer than the deadline, in which a process that ran would have been done in time.
TEST(Wait, IsNotLateBecauseTheProcessWasStopped) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::thread work([&] {
      for (int i = 0; i < 8; ++i) {
        std::this_thread::sleep_for(milliseconds(100));
      }
      const std::lock_guard guard(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    const bool in_time = wait_with_deadline(changed, lock, 2, [&] { return done; });
    lock.unlock();
    work.join();
    _exit(in_time ? 0 : 1);
  }
  std::this_thread::sleep_for(milliseconds(200));
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  std::this_thread::sleep_for(milliseconds(2500));
  ASSERT_EQ(kill(child, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mstrain
