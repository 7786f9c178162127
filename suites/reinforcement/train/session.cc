#include "suites/reinforcement/train/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/error.h"
#include "core/base/files_silent.h"
#include "core/base/interrupt.h"
#include "core/base/isa.h"
#include "core/io/events.h"
#include "core/train/checkpoint.h"
#include "core/train/log_file.h"
#include "core/train/metrics_log.h"
#include "core/train/numbers.h"
#include "core/train/rank_talk.h"
#include "core/train/report.h"
#include "core/train/report_data.h"
#include "core/train/run_device.h"
#include "core/train/run_record.h"
#include "suites/reinforcement/train/evaluation_look.h"
#include "suites/reinforcement/train/live_line.h"
#include "suites/reinforcement/train/roles.h"

namespace mstrain::reinforcement {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
// Of a saved state, room for what stands beside the agent's: counters and the last episodes.
constexpr size_t kRest = 16 << 10;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string state_file(int rank) { return fmt::format("agent-{:04}.bin", rank); }

// What keeps a run from going on as it began. Length, evaluation and what is written may change.
bool may_differ(std::string_view key) {
  for (const std::string_view free : {"run.", "log.", "checkpoint.", "eval.", "memory."}) {
    if (key.starts_with(free) && key != "run.seed") {
      return true;
    }
  }
  return key == "schedule.total_env_steps" || key == "distribution.timeout_s";
}

// With --change, what decides how fast it learns may change, too.
bool may_be_changed(std::string_view key) {
  return may_change(key) == Changing::kOnRequest &&
         (key.starts_with("optimizer.") || key.starts_with("schedule."));
}

void check_changes(const std::string& path, const YamlNode& before, const YamlNode& now,
                   const std::vector<std::string>& asked) {
  std::string refused;
  for (const KeyChange& change : changed_keys(before, now)) {
    const bool is_asked = std::find(asked.begin(), asked.end(), change.key) != asked.end();
    if (is_asked && may_be_changed(change.key)) {
      log_info("from here on {}", describe(change));
    } else if (!may_differ(change.key)) {
      refused += (refused.empty() ? "" : "; ") + describe(change);
    }
  }
  if (!refused.empty()) {
    throw ConfigError(fmt::format(
        "{}: this run began with other values ({}); restore them, choose another run.output_dir, "
        "or begin anew with --restart",
        path, refused));
  }
}

class Session {
 public:
  Session(const RunRequest& request, const Config& config, const std::shared_ptr<Ranks>& ranks,
          std::optional<int64_t> until)
      : request_(request),
        config_(config),
        ranks_(ranks.get()),
        first_(is_first(ranks_)),
        silent_(request.files),
        files_(first_ ? request.files : static_cast<FileSystem&>(silent_)),
        resolved_(write_config(config)),
        total_(config.schedule.total_env_steps),
        until_(until) {}

  Finished run();

 private:
  std::optional<std::string> previous_checkpoint();
  void restore(const std::string& folder);
  void open_logs();
  bool is_over() const { return env_steps_ >= total_ || stopped_; }
  void log_row(const Iteration& iteration, bool last);
  void evaluate_now();
  std::string state() const;
  void save();
  void report(const char* status, const std::string& reason = "");
  void loop();
  double wall_seconds() const { return wall_before_ + seconds_since(began_); }

  const RunRequest& request_;
  const Config& config_;
  Ranks* ranks_;
  bool first_;
  SilentFiles silent_;
  FileSystem& files_;
  YamlNode resolved_;
  int64_t total_;
  std::optional<int64_t> until_;

  std::unique_ptr<RunDirectory> directory_;
  std::unique_ptr<Agent> agent_;
  AgentPlan plan_;
  TrainConfig record_config_;  // as the record of runs takes it
  RunPlan record_plan_;
  std::unique_ptr<RunRecord> record_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<MetricsFile> looks_;  // at evaluations
  std::unique_ptr<EventsWriter> events_;
  std::unique_ptr<LiveLine> line_;

  EpisodeLog episodes_;
  int64_t env_steps_ = 0;
  int64_t iterations_ = 0;
  int64_t logged_ = 0, evaluated_ = 0, saved_ = -1;  // env_steps_ then
  int64_t evaluations_ = 0;                          // so far
  int64_t met_ = 0;                                  // env_steps_ when all ranks were last together
  bool stopped_ = false;                             // by eval.stop_at_return
  std::optional<double> eval_return_;
  bool interrupted_ = false;

  Clock::time_point began_ = Clock::now(), saved_at_ = Clock::now(), row_at_ = Clock::now();
  double wall_before_ = 0;
  double away_ = 0;  // seconds since the last row that were no training
  double rate_ = 0;
};

std::optional<std::string> Session::previous_checkpoint() {
  std::optional<std::string> newest;
  work_together(ranks_, "newest checkpoint", [&] {
    if (first_) {
      newest = newest_checkpoint(files_, directory_->checkpoints(), /*set_aside=*/true);
    }
  });
  const std::string folder = told(ranks_, newest.value_or(""), "newest checkpoint");
  if (folder.empty()) {
    return std::nullopt;
  }
  if (config_.checkpoint.resume == Resume::kNever) {
    throw ConfigError(fmt::format(
        "checkpoint.resume: never, but {} exists; choose another run.output_dir, or say auto to go "
        "on",
        folder));
  }
  if (const std::string path = directory_->at(kConfigFile); files_.exists(path)) {
    check_changes(path, parse_yaml(files_.read(path, 1 << 20), path), resolved_,
                  request_.start.changes);
  }
  return folder;
}

void Session::restore(const std::string& folder) {
  const ProgressState progress = read_progress(files_, folder);
  if (progress.isa != to_string(isa()) || progress.threads != current_context().num_threads()) {
    log_warning(
        "{}: made with {} and {} threads, going on with {} and {}: numbers differ in their last "
        "bits from those of a run that never stopped",
        folder, progress.isa, progress.threads, to_string(isa()), current_context().num_threads());
  }
  load_tensors(files_, folder, kModelFile, agent_->model());
  load_tensors(files_, folder, kOptimizerFile, agent_->optimizer());
  int began_with = 0;
  while (files_.exists(join_path(folder, state_file(began_with)))) {
    ++began_with;
  }
  const int ranks = ranks_ == nullptr ? 1 : ranks_->mesh().ranks();
  if (began_with != ranks) {
    throw ConfigError(fmt::format(
        "{}: is of a run of {} rank{}, and there {} {}: go on with as many (--ranks, "
        "distribution.actors)",
        folder, began_with, began_with == 1 ? "" : "s", ranks == 1 ? "is" : "are", ranks));
  }
  const std::string state = join_path(folder, state_file(ranks_ == nullptr ? 0 : ranks_->rank()));
  const std::string bytes = files_.read(state, kMostBytes);
  ByteReader reader(bytes, state);
  env_steps_ = reader.get<int64_t>();
  iterations_ = reader.get<int64_t>();
  logged_ = reader.get<int64_t>();
  evaluated_ = reader.get<int64_t>();
  stopped_ = reader.get<uint8_t>() != 0;
  episodes_.load(reader);
  agent_->load(reader.get_text());
  reader.expect_end();
  saved_ = env_steps_;
}

void Session::open_logs() {
  write_file_atomic(files_, directory_->at(kConfigFile), to_yaml(resolved_));
  for (const Json& row : read_metrics(files_, directory_->at(kMetricsFile))) {
    const auto wall = row.find("wall_seconds");
    if (row["step"].get<int64_t>() <= env_steps_ && wall != row.end() && wall->is_number()) {
      wall_before_ = wall->get<double>();
      evaluations_ += row.contains(kEvalReturn) ? 1 : 0;
    }
  }
  metrics_ =
      std::make_unique<MetricsFile>(files_, directory_->at(kMetricsFile), MetricsKept(env_steps_));
  looks_ = std::make_unique<MetricsFile>(files_, directory_->at(kEvaluationsFile),
                                         MetricsKept(env_steps_));
  const double now = wall_clock();
  events_ = std::make_unique<EventsWriter>(files_, directory_->at(events_file_name(now)), now);
  if (env_steps_ > 0) {
    events_->restart(env_steps_ + 1, now);
  }
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

void Session::log_row(const Iteration& iteration, bool last) {
  if (iteration.measures.empty()) {
    return;
  }
  const double now = wall_clock();
  const double seconds = std::max(1e-9, seconds_since(row_at_) - away_);
  const int64_t steps = env_steps_ - logged_;
  rate_ = static_cast<double>(steps) / seconds;
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
    row["step_seconds"] = seconds / static_cast<double>(steps);
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

void Session::evaluate_now() {
  const auto begin = Clock::now();
  std::string result;
  // A first rank that steps no environments does not know by what training divides rewards.
  const bool knows_rewards =
      !config_.environment.env.normalize_rewards ||
      !Roles(config_, ranks_ == nullptr ? 1 : ranks_->mesh().ranks()).first_has_none();
  EvaluationLook look(knows_rewards ? std::optional(config_.algorithm->discount) : std::nullopt);
  if (first_) {
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
  }
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

// Everything of this rank that is in no tensor.
std::string Session::state() const {
  const std::string agent = agent_->save();
  ByteWriter out;
  out.reserve(agent.size() + kRest);
  out.put(env_steps_);
  out.put(iterations_);
  out.put(logged_);
  out.put(evaluated_);
  out.put<uint8_t>(stopped_ ? 1 : 0);
  episodes_.save(out);
  out.put_text(agent);
  return out.take();
}

void Session::save() {
  const auto begin = Clock::now();
  std::vector<std::string> states = told_to_first(ranks_, state(), "checkpoint");
  if (first_) {
    CheckpointContents contents;
    contents.progress.step = env_steps_;
    contents.progress.seed = static_cast<uint64_t>(config_.run.seed);
    contents.progress.data = config_.environment.env.name;
    contents.progress.isa = to_string(isa());
    contents.progress.threads = current_context().num_threads();
    contents.progress.schedule = Json::object();
    contents.model = agent_->model();
    contents.optimizer = agent_->optimizer();
    contents.files.emplace_back(kPlayedFile, to_yaml(resolved_));
    contents.files.emplace_back(kEnvironmentsFile, agent_->env().save());
    for (size_t rank = 0; rank < states.size(); ++rank) {
      contents.files.emplace_back(state_file(static_cast<int>(rank)), std::move(states[rank]));
    }
    events_->sync();
    save_checkpoint(files_, join_path(directory_->checkpoints(), checkpoint_name(env_steps_)),
                    contents);
    prune_checkpoints(files_, directory_->checkpoints(), config_.checkpoint.keep);
  }
  meet(ranks_, "checkpoint");
  agent_->release(list_checkpoints(files_, directory_->checkpoints()).front());
  saved_ = env_steps_;
  saved_at_ = Clock::now();
  away_ += seconds_since(begin);
}

void Session::report(const char* status, const std::string& reason) {
  if (!first_) {
    return;
  }
  record_->write({.step = env_steps_, .status = status, .reason = reason});
  const std::string path = directory_->path();
  write_file_atomic(files_, directory_->at(kReportFile), report_html(files_, std::span(&path, 1)));
}

void Session::loop() {
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
      report(kStatusRunning);
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
  if (evaluates(/*last=*/true)) {  // the run ended in an evaluation that was cut short
    evaluate_now();
    save();
  }
}

Finished Session::run() {
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
  agent_ = entry.make(config_, request_.tree, world, request_.files);
  if (previous) {
    restore(*previous);
    if (is_over() && (config_.eval.interval.is_word() || evaluated_ == env_steps_)) {
      return {Outcome::kWasFinished, env_steps_, std::nullopt, stopped_};
    }
    stopped_ = false;
    log_info("{}: going on from step {}", directory_->path(), env_steps_);
  }
  if (request_.start.restart) {
    meet(ranks_, "restart");
    if (first_) {
      if (directory_->clear()) {
        log_info("{}: what an earlier run had written is removed", directory_->path());
      }
      log_file.emplace(files_, directory_->at(kLogFile));
    }
  }
  meet(ranks_, "start");
  open_logs();
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
  report(interrupted_ ? kStatusInterrupted : kStatusFinished,
         stopped_ ? fmt::format("eval.stop_at_return {} is reached", *config_.eval.stop_at_return)
                  : "");
  return {interrupted_ && !is_over() ? Outcome::kInterrupted : Outcome::kFinished, env_steps_,
          eval_return_, stopped_};
}

}  // namespace

Finished train_agent(const RunRequest& request, const Config& config, std::shared_ptr<Ranks> ranks,
                     std::optional<int64_t> until) {
  // A network of these sizes is done before other threads are awake.
  const Context context{.threads = static_cast<int>(config.run.threads.value_or(1)),
                        .ranks = ranks};
  const ContextScope scope(context);
  return Session(request, config, ranks, until).run();
}

}  // namespace mstrain::reinforcement
