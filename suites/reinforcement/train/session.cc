#include "suites/reinforcement/train/session.h"

#include <exception>

#include "core/base/interrupt.h"
#include "core/train/log_file.h"
#include "core/train/previous_run.h"
#include "core/train/rank_talk.h"
#include "suites/reinforcement/train/agent_session.h"

namespace mstrain::reinforcement {

void AgentSession::work_together(std::string_view what, const std::function<void()>& work) {
  std::exception_ptr failure;
  mstrain::work_together(ranks_, what, [&] {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
}

void AgentSession::loop() {
  const EnvEvalConfig& eval = config_.eval;
  const auto evaluates = [&](bool last) {
    return !eval.interval.is_word() && evaluated_ < env_steps_ &&
           (last || env_steps_ / *eval.interval.value > evaluated_ / *eval.interval.value);
  };
  const AutoOr<int64_t>& interval = config_.checkpoint.interval;
  const auto saves = [&](int64_t before) {
    return interval.is_word() ? seconds_since(saved_at_) >= config_.checkpoint.minutes * 60
                              : env_steps_ / *interval.value > before / *interval.value;
  };
  const auto is_far_enough = [&] { return until_ && env_steps_ >= *until_ && !is_over(); };
  row_at_ = Clock::now();
  met_ = env_steps_;
  resumed_ = env_steps_;
  if (evaluates(is_over())) {  // the run was interrupted before this evaluation, or in it
    evaluate_now();
    interrupted_ = evaluated_ < env_steps_;
    if (interrupted_) {
      return;
    }
    save();
  }
  while (!is_over()) {
    const Iteration iteration =
        agent_->iterate(static_cast<double>(env_steps_) / static_cast<double>(total_));
    const int64_t before = env_steps_;
    env_steps_ += iteration.env_steps;
    ++iterations_;
    for (const Episode& each : iteration.finished) {
      episodes_.add(each);
    }
    const bool out_of_time = config_.run.time_limit_hours &&
                             seconds_since(began_) >= *config_.run.time_limit_hours * 3600;
    const bool stops = request_.stop || out_of_time;
    const bool last = is_over();
    log_row(iteration, last);
    if (agent_->runs_free() && first_) {
      if (!(stops || last || evaluates(last) || saves(before) || is_far_enough())) {
        continue;
      }
      agent_->call_in(env_steps_ - met_);
    }
    met_ = env_steps_;
    interrupted_ = told(ranks_, stops ? 1 : 0, "stop") != 0;
    if (evaluates(last) && !interrupted_) {
      evaluate_now();
      interrupted_ = evaluated_ < env_steps_;
      work_together("report", [this] { report(kStatusRunning); });
    }
    interrupted_ = interrupted_ || is_far_enough();
    const bool due =
        interval.is_word() ? told(ranks_, saves(before) ? 1 : 0, "checkpoint") != 0 : saves(before);
    if ((due || is_over() || interrupted_) && saved_ < env_steps_) {
      save();
    }
    if (interrupted_) {
      return;
    }
  }
}

Finished AgentSession::run() {
  if (!first_) {
    meet(ranks_, "run directory");
  }
  directory_ = std::make_unique<RunDirectory>(files_, config_.run.directory());
  std::optional<LogFile> log_file;
  if (first_) {
    if (!request_.start.restart) {
      log_file.emplace(files_, directory_->at(kLogFile));
    }
    meet(ranks_, "run directory");
  }
  const std::optional<std::string> previous =
      request_.start.restart ? std::nullopt : previous_checkpoint();
  Communicator* world = ranks_ == nullptr ? nullptr : &ranks_->world();
  const AgentEntry& entry = agent_of(config_.algorithm->type);
  plan_ = entry.plan(config_, request_.tree, world == nullptr ? 1 : world->size());
  work_together("start", [&] {
    agent_ = entry.make(config_, request_.tree, world, request_.files);
    if (previous) {
      restore(*previous);
    }
  });
  if (previous) {
    stopped_ = stopped_ && !asks_for_more();
    if (is_complete() && !ended_without_its_word(files_, directory_->path())) {
      return {Outcome::kWasFinished, env_steps_, std::nullopt, stopped_};
    }
    log_info("{}: going on from step {}", directory_->path(), env_steps_);
  }
  meet(ranks_, "start");  // from here on the first rank changes what the others have read
  work_together("start", [&] {
    if (request_.start.restart && first_) {
      if (directory_->clear()) {
        log_info("{}: what an earlier run had written is removed", directory_->path());
      }
      log_file.emplace(files_, directory_->at(kLogFile));
      if (request_.start.cleared != nullptr) {
        request_.start.cleared();
      }
    }
    open_logs();
  });
  outlive_output();
  const HeedInterrupts heeds;
  try {
    loop();
  } catch (const std::exception& error) {
    if (log_file) {
      log_file->note(LogLevel::kError, error.what());
    }
    report(kStatusFailed, error.what());
    throw;
  }
  line_.reset();
  work_together("report", [this] {
    report(is_complete() ? kStatusFinished : kStatusInterrupted,
           stopped_ ? fmt::format("eval.stop_at_return {} is reached", *config_.eval.stop_at_return)
                    : "");
  });
  return {is_complete() ? Outcome::kFinished : Outcome::kInterrupted, env_steps_, eval_return_,
          stopped_};
}

Finished train_agent(const RunRequest& request, const Config& config, std::shared_ptr<Ranks> ranks,
                     std::optional<int64_t> until) {
  // A network of these sizes is done before other threads are awake.
  const Context context{.threads = static_cast<int>(config.run.threads.value_or(1)),
                        .ranks = ranks};
  const ContextScope scope(context);
  return AgentSession(request, config, ranks, until).run();
}

}  // namespace mstrain::reinforcement
