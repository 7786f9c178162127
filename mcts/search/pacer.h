// Decides when a run ends. The clock is read often enough to end within a fraction of a millisecond of the time given, and
// seldom enough to cost nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/base/error.h"
#include "mcts/search/config.h"

namespace mstrain::mcts {

class Pacer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Pacer(const Budget& budget, bool solve = false) : solve_(solve), start_(Clock::now()) {
    limit(budget);
  }

  // Another budget for the same run; what was done counts.
  void limit(const Budget& budget) {
    check(budget.simulations >= 0, "search: simulations is {} in the budget", budget.simulations);
    check(budget.stable >= 0, "search: stable is {} in the budget", budget.stable);
    check(budget.simulations > 0 || budget.time || budget.stable > 0,
          "search: the budget limits neither simulations nor time nor stability");
    check(!budget.time || budget.time->count() >= 0, "search: a negative time budget");
    budget_ = budget;
    if (budget.time) {
      deadline_ = start_ + *budget.time;
    }
    next_clock_ = done_;
    next_leader_ = budget.stable > 0 ? done_ + leader_interval() : INT64_MAX;
  }
  const Budget& budget() const { return budget_; }

  bool solve() const { return solve_; }
  int64_t done() const { return done_; }
  int64_t left() const {
    return budget_.simulations > 0 ? std::max<int64_t>(0, budget_.simulations - done_) : INT64_MAX;
  }
  bool wants_leader() const { return done_ >= next_leader_; }

  // Simulations that one of `threads` threads may do before it asks again: some 60 microseconds' worth.
  int64_t share(int64_t threads) const {
    if (done_ == 0) {
      return 1;
    }
    const std::chrono::nanoseconds each = (Clock::now() - start_) * threads / done_;
    return std::clamp<int64_t>(
        std::chrono::microseconds(60) / std::max(each, std::chrono::nanoseconds(1)), 1, 512);
  }

  // To be called after each simulation or batch: true where the run is to go on.
  bool go_on(int64_t finished) {
    done_ += finished;
    if (budget_.simulations > 0 && done_ >= budget_.simulations) {
      stop_ = Stop::kSimulations;
      return false;
    }
    if (budget_.time && done_ >= next_clock_) {
      const Clock::time_point now = Clock::now();
      const std::chrono::nanoseconds each = (now - start_) / std::max<int64_t>(done_, 1);
      if (now + each * finished / 2 >= deadline_) {
        stop_ = Stop::kTime;
        return false;
      }
      // Half of what fits into a tenth of a millisecond, or into the time that is left.
      const auto slice =
          std::min<std::chrono::nanoseconds>(std::chrono::microseconds(100), deadline_ - now);
      next_clock_ =
          done_ + std::max<int64_t>(1, slice / std::max(each, std::chrono::nanoseconds(1)) / 2);
    }
    return true;
  }

  // The most visited root edge at this moment; true where it has led long enough.
  bool stable(uint64_t leader) {
    next_leader_ = done_ + leader_interval();
    if (leader != leader_) {
      leader_ = leader;
      leads_since_ = done_;
    } else if (done_ - leads_since_ >= budget_.stable) {
      stop_ = Stop::kStable;
      return true;
    }
    return false;
  }

  void solved() { stop_ = Stop::kSolved; }
  Stop stop() const { return stop_; }
  void set_stop(Stop stop) { stop_ = stop; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // May something that takes `cost` be done before the time is over?
  bool affords(std::chrono::nanoseconds cost) const {
    return !budget_.time || Clock::now() + cost < deadline_;
  }

 private:
  int64_t leader_interval() const { return std::max<int64_t>(1, budget_.stable / 16); }

  Budget budget_;
  bool solve_;
  Clock::time_point start_;
  Clock::time_point deadline_{};
  int64_t done_ = 0;
  int64_t next_clock_ = 0;
  int64_t next_leader_ = 0;
  int64_t leads_since_ = 0;
  uint64_t leader_ = UINT64_MAX;
  Stop stop_ = Stop::kSimulations;
};

}  // namespace mstrain::mcts
