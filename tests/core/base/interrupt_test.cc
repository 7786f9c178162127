#include "core/base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace mstrain {
namespace {

// In processes of their own: signals are a matter of the whole process.
TEST(InterruptDeathTest, EndsWhatNobodyWouldSave) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          catch_interrupts();
          std::raise(signal);
          std::exit(0);
        },
        testing::ExitedWithCode(130), "");
  }
}

TEST(InterruptDeathTest, AsksWhoHeedsItOnceAndThenEnds) {
  EXPECT_EXIT(
      {
        const std::atomic<bool>& stop = catch_interrupts();
        const HeedInterrupts heeds;
        std::raise(SIGINT);
        std::exit(stop ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        catch_interrupts();
        const HeedInterrupts heeds;
        std::raise(SIGINT);
        std::raise(SIGINT);
        std::exit(0);
      },
      testing::ExitedWithCode(130), "");
  EXPECT_EXIT(
      {
        catch_interrupts();
        { const HeedInterrupts heeds; }
        std::raise(SIGTERM);
        std::exit(0);
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, AClosedTerminalAsksHoweverOftenAndNohupIsHeeded) {
  EXPECT_EXIT(
      {
        const std::atomic<bool>& stop = catch_interrupts();
        const HeedInterrupts heeds;
        std::raise(SIGHUP);
        std::raise(SIGHUP);
        std::exit(stop ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        catch_interrupts();
        std::raise(SIGHUP);
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(InterruptDeathTest, WhatCameWhileTheyWereHeldCountsThen) {
  EXPECT_EXIT(
      {
        hold_interrupts();
        std::raise(SIGINT);
        catch_interrupts();
        std::exit(0);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace mstrain
