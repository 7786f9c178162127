// What a run of an agent tells: rows of measures, its live line, evaluations and the report.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/train/metrics_csv.h"
#include "core/train/metrics_file.h"
#include "core/train/numbers.h"
#include "core/train/rank_talk.h"
#include "core/train/report.h"
#include "core/train/report_data.h"
#include "suites/reinforcement/train/agent_session.h"
#include "suites/reinforcement/train/evaluation_look.h"
#include "suites/reinforcement/train/roles.h"

namespace mstrain::reinforcement {

void AgentSession::open_logs() {
  write_file_atomic(files_, directory_->at(kConfigFile), to_yaml(resolved_));
  // An evaluation of which the checkpoint does not know is made again.
  const MetricsKept kept(env_steps_, evaluated_, env_steps_);
  for (const Json& row : read_metrics(files_, directory_->at(kMetricsFile))) {
    const auto wall = row.find("wall_seconds");
    if (kept.has(row) && wall != row.end() && wall->is_number()) {
      wall_before_ = wall->get<double>();
      evaluations_ += row.contains(kEvalReturn) ? 1 : 0;
    }
  }
  metrics_ = std::make_unique<MetricsFile>(files_, directory_->at(kMetricsFile), kept);
  looks_ = std::make_unique<MetricsFile>(files_, directory_->at(kEvaluationsFile),
                                         MetricsKept(evaluated_));
  const double now = wall_clock();
  events_ = std::make_unique<EventsWriter>(files_, directory_->at(events_file_name(now)), now);
  // A run that begins may stand where one was killed before its first checkpoint.
  events_->restart(env_steps_ > 0 ? env_steps_ + 1 : 0, now);
  events_->hyperparameters(flatten_config(resolved_), now);
  record_config_.run = config_.run;
  record_config_.schedule.total_steps = total_;
  record_plan_.parameters = plan_.parameters;
  record_plan_.parameter_bytes = plan_.model_bytes;
  record_plan_.optimizer_bytes = plan_.optimizer_bytes;
  record_plan_.batch_bytes = plan_.data_bytes;
  record_plan_.units = {.name = "step", .count = 1};
  record_ = std::make_unique<RunRecord>(*directory_, record_config_, record_plan_,
                                        RunStart{env_steps_, request_.start.command, {}});
  line_ = std::make_unique<LiveLine>(first_);
  report(kStatusRunning);
}

void AgentSession::log_row(const Iteration& iteration, bool last) {
  if (iteration.measures.empty()) {
    return;
  }
  const double now = wall_clock();
  const double seconds = std::max(1e-9, seconds_since(row_at_) - away_);
  const int64_t steps = env_steps_ - logged_;
  const auto timed = static_cast<double>(env_steps_ - std::max(logged_, resumed_));
  rate_ = timed / seconds;
  if (last || steps >= config_.log.interval) {
    OrderedJson row{{"step", env_steps_}, {"env_steps", env_steps_}, {"iteration", iterations_}};
    if (!episodes_.empty()) {
      row["episode_return"] = episodes_.mean_return();
      row["episode_length"] = episodes_.mean_length();
      row["episodes"] = episodes_.count();
    }
    for (const auto& [name, value] : iteration.measures) {
      row[name] = value;
      events_->scalar("train/" + name, value, env_steps_, now);
    }
    row["step_seconds"] = seconds / timed;
    row[per_second("step")] = rate_;
    row["wall_seconds"] = wall_seconds();
    row["time"] = now;
    metrics_->write(row);
    if (!episodes_.empty()) {
      events_->scalar("episode/return", episodes_.mean_return(), env_steps_, now);
      events_->scalar("episode/length", episodes_.mean_length(), env_steps_, now);
    }
    events_->scalar("speed/steps_per_second", rate_, env_steps_, now);
    logged_ = env_steps_;
    row_at_ = Clock::now();
    away_ = 0;
  }
  if (line_->is_due(last)) {
    std::string text = fmt::format("step {}/{}", env_steps_, total_);
    if (!episodes_.empty()) {
      text += fmt::format("  return {:.1f}", episodes_.mean_return());
    }
    for (const auto& [name, value] : iteration.measures) {
      if (name == "entropy" || name == "kl" || name == "loss") {
        text += fmt::format("  {} {:.3g}", name, value);
      }
    }
    line_->show(text + fmt::format("  {} steps/s", short_number(rate_)));
  }
}

void AgentSession::evaluate_now() {
  const auto begin = Clock::now();
  std::string result;
  // A first rank that steps no environments does not know by what training divides rewards.
  const bool knows_rewards =
      !config_.environment.env.normalize_rewards ||
      !Roles(config_, ranks_ == nullptr ? 1 : ranks_->mesh().ranks()).first_has_none();
  EvaluationLook look(knows_rewards ? std::optional(config_.algorithm->discount) : std::nullopt);
  work_together("evaluation", [&] {
    if (!first_) {
      return;
    }
    const auto found = evaluate(config_.environment.env, config_.eval.episodes,
                                static_cast<uint64_t>(config_.run.seed), *agent_, &agent_->env(),
                                request_.stop, &look);
    if (found) {
      const double now = wall_clock();
      metrics_->write({{"step", env_steps_},
                       {"env_steps", env_steps_},
                       {kEvalReturn, found->mean_return()},
                       {"eval_return_least", found->quantile(0)},
                       {"eval_return_median", found->quantile(0.5)},
                       {"eval_return_most", found->quantile(1)},
                       {"eval_length", found->mean_length()},
                       {"eval_episodes", config_.eval.episodes},
                       {"eval_seconds", seconds_since(begin)},
                       {"wall_seconds", wall_seconds()},
                       {"time", now}});
      events_->scalar("eval/return", found->mean_return(), env_steps_, now);
      events_->scalar("eval/length", found->mean_length(), env_steps_, now);
      log_info("step {}: evaluation of {} episodes: return {:.2f} ({:.2f} to {:.2f}), {:.1f} s",
               env_steps_, config_.eval.episodes, found->mean_return(), found->quantile(0),
               found->quantile(1), wall_seconds());
      result = fmt::format("{:a}", found->mean_return());
    }
  });
  result = told(ranks_, result, "evaluation");
  if (!result.empty()) {
    eval_return_ = std::strtod(result.c_str(), nullptr);
    stopped_ = config_.eval.stop_at_return && *eval_return_ >= *config_.eval.stop_at_return;
    evaluated_ = env_steps_;
    if (first_ && (is_over() || is_looked_at(evaluations_))) {
      OrderedJson row{{"step", env_steps_}};
      row.update(look.row());
      looks_->write(row);
    }
    ++evaluations_;
  }
  away_ += seconds_since(begin);
}

void AgentSession::report(const char* status, const std::string& reason) {
  if (!first_) {
    return;
  }
  record_->write({.step = env_steps_, .status = status, .reason = reason});
  write_file_atomic(files_, directory_->at(kMetricsTable),
                    metrics_csv(read_metrics(files_, directory_->at(kMetricsFile))));
  const std::string path = directory_->path();
  write_file_atomic(files_, directory_->at(kReportFile), report_html(files_, std::span(&path, 1)));
}

}  // namespace mstrain::reinforcement
