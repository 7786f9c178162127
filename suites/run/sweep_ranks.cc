#include "suites/run/sweep_ranks.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/rank_talk.h"

namespace mstrain {
namespace {

// What rank 0 says instead of a trial's number.
constexpr int64_t kWait = -1, kNoMore = -2, kStopAll = -3;
constexpr const char* kOrder = "order of the sweep";

}  // namespace

SweepRanks::SweepRanks(Ranks* ranks, Train train)
    : ranks_(ranks),
      train_(std::move(train)),
      between_runs_(ranks == nullptr ? nullptr : ranks->world().split(0, "sweep")) {}

Outcome SweepRanks::train(size_t trial, int64_t until, bool restart) {
  told(ranks_, static_cast<int64_t>(trial), kOrder);
  told(ranks_, until, kOrder);
  told(ranks_, restart ? 1 : 0, kOrder);
  return train_here(trial, until, restart);
}

Outcome SweepRanks::train_here(size_t trial, int64_t until, bool restart) {
  if (ranks_ == nullptr) {
    return train_(trial, until, restart);
  }
  Outcome outcome = Outcome::kFinished;
  std::exception_ptr failure;
  std::string why;
  try {
    outcome = train_(trial, until, restart);
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    failure = std::current_exception();
    why = error.what();
  }
  int64_t succeeded = failure == nullptr ? 1 : 0;
  try {
    const Elements word{&succeeded, 1, Dtype::kI64};
    between_runs_->all_reduce(word, word, Reduction::kMin, "end of a run").wait();
  } catch (const CommError&) {
    if (failure != nullptr) {
      log_error("{}", why);  // which is why
    }
    throw;
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  check(succeeded == 1, "another rank failed: its log is in {}", kRankLogs);
  return outcome;
}

void SweepRanks::aside(const std::function<void()>& work) {
  told(ranks_, kWait, kOrder);
  work_together(ranks_, kOrder, work);
}

void SweepRanks::end(Outcome outcome) {
  told(ranks_, outcome == Outcome::kInterrupted ? kStopAll : kNoMore, kOrder);
}

Outcome SweepRanks::follow() {
  for (;;) {
    const int64_t order = told(ranks_, kWait, kOrder);
    if (order == kNoMore || order == kStopAll) {
      return order == kStopAll ? Outcome::kInterrupted : Outcome::kFinished;
    }
    if (order == kWait) {
      work_together(ranks_, kOrder, [] {});
      continue;
    }
    const int64_t until = told(ranks_, 0, kOrder);
    const bool restart = told(ranks_, 0, kOrder) == 1;
    try {
      train_here(static_cast<size_t>(order), until, restart);
    } catch (const CommError&) {
      throw;
    } catch (const Error& error) {
      log_warning("sweep: a run failed: {}", error.what());
    }
  }
}

}  // namespace mstrain
