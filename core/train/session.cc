#include "core/train/session.h"
#include "core/train/run_device.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/base64.h"
#include "core/base/error.h"
#include "core/base/files_silent.h"
#include "core/base/interrupt.h"
#include "core/base/isa.h"
#include "core/base/log.h"
#include "core/ir/backend.h"
#include "core/train/early_stopping.h"
#include "core/train/layer_log.h"
#include "core/train/log_file.h"
#include "core/train/machine.h"
#include "core/train/numbers.h"
#include "core/train/previous_run.h"
#include "core/train/profiler.h"
#include "core/train/rank_talk.h"
#include "core/train/reduce_on_plateau.h"
#include "core/train/reporter.h"
#include "core/train/shared_plan.h"
#include "core/train/time_limit.h"

namespace mstrain {
namespace {

bool has_evaluation(const RunDirectory& directory, int64_t step) {
  for (const Json& row : read_metrics(directory.files(), directory.at(kMetricsFile))) {
    if (row["step"].get<int64_t>() == step && is_evaluation(row)) {
      return true;
    }
  }
  return false;
}

// Whether what one of `callbacks` does after the last step was cut short.
bool owes_last_visit(const std::vector<Callback*>& callbacks, const ProgressState& progress) {
  return std::ranges::any_of(callbacks, [&](Callback* callback) {
    if (const auto saved = progress.callbacks.find(callback->name());
        saved != progress.callbacks.end()) {
      callback->restore(*saved);
    }
    return callback->wants(progress.step, Moment::kFinished);
  });
}

// Monitors watch what the evaluations of this run measure.
void check_monitors(const TrainConfig& config, const TrainTask& task, const TrainData& data,
                    const YamlNode& tree) {
  const std::vector<std::string> measured = metrics_of(task, data);
  const auto check_any = [&](const char* key, const std::string& what) {
    if (measured.empty()) {
      config_fail(tree, key,
                  fmt::format("{} needs evaluations: give data.valid or a data.split below 1, and "
                              "eval.interval",
                              what));
    }
  };
  const auto check_one = [&](const char* key, const std::string& name) {
    check_any(key, name);
    if (std::find(measured.begin(), measured.end(), name) == measured.end()) {
      config_fail(
          tree, key,
          fmt::format("this run measures no {}; it measures {}", name, fmt::join(measured, ", ")));
    }
  };
  if (config.schedule.type == ScheduleType::kPlateau) {
    check_any("schedule.type", "plateau");
    if (std::find(measured.begin(), measured.end(), kEvalLoss) == measured.end()) {
      config_fail(tree, "schedule.type",
                  fmt::format("plateau watches {}, and this run measures {}; say constant, and "
                              "schedule.reduce_on_plateau.monitor={}",
                              kEvalLoss, fmt::join(measured, ", "), measured.front()));
    }
  }
  if (config.eval.early_stopping) {
    check_one("eval.early_stopping.monitor", config.eval.early_stopping->monitor);
  }
  if (config.checkpoint.best) {
    check_one("checkpoint.best", *config.checkpoint.best);
  }
  if (config.schedule.reduce_on_plateau) {
    check_one("schedule.reduce_on_plateau.monitor", config.schedule.reduce_on_plateau->monitor);
  }
}

// The key that keeps a run from going on which a rule had ended.
std::optional<std::string> ended_by(const TrainConfig& config,
                                    const std::optional<PreviousRun>& previous) {
  return previous && config.eval.early_stopping
             ? EarlyStopping::ended_by(*config.eval.early_stopping, previous->progress.callbacks)
             : std::nullopt;
}

// Sums are made in another order on another machine.
void warn_of_another_machine(const PreviousRun& previous) {
  const ProgressState& then = previous.progress;
  const int threads = current_context().num_threads();
  if (then.threads > 0 && (then.isa != to_string(isa()) || then.threads != threads)) {
    log_warning(
        "{}: made with {} and {} thread{}, going on with {} and {}: numbers differ in their last "
        "bits from those of a run that "
        "never stopped",
        previous.folder, then.isa, then.threads, then.threads == 1 ? "" : "s", to_string(isa()),
        threads);
  }
}

// Reads the first batch and drops it: what keeps a run from it is thrown before anything has begun. Callbacks may make samples as
// a run begins, and rows are looked up in tables that are open: there is nothing to read before.
void read_first(const TrainData& data, const TrainConfig& config, uint64_t seed, int64_t micro,
                const Ranks* ranks) {
  const BatchPart part(config.batch.global, micro,
                       ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis),
                       ranks == nullptr ? 0 : ranks->coordinate(kDataAxis));
  data.training(seed, part, /*first=*/0)->next();
}

// What the report shows of the first samples.
void write_pictures(const RunDirectory& directory, const TrainData& data, uint64_t seed) {
  OrderedJson pictures = OrderedJson::array();
  for (const SamplePicture& picture : data.pictures(seed)) {
    pictures.push_back({{"png", to_base64(picture.png)}, {"label", picture.label}});
  }
  write_file_atomic(directory.files(), directory.at(kPicturesFile), pictures.dump() + "\n");
}

}  // namespace

Context make_context(const TrainConfig& config, std::shared_ptr<Ranks> ranks) {
  const Backend* const backend = backend_named(device_of(config.run));
  const auto& device =
      backend->open != nullptr ? backend->open() : current_context().allocator->device();
  return {.backend = backend,
          .threads = static_cast<int>(config.run.threads.value_or(0)),
          .allocator = std::make_shared<Allocator>(Allocator::kCacheLimit, device),
          .ranks = std::move(ranks)};
}

SessionResult train(FileSystem& given_files, const TrainConfig& config, const YamlNode& resolved,
                    const TrainTask& given_task, const TrainData& given, const Refuse& refuse,
                    const std::atomic<bool>& stop, const std::vector<Callback*>& more,
                    const SessionStart& start) {
  const auto clock_begin = TimeLimit::Clock::now();
  Ranks* const ranks = start.ranks.get();
  const bool first = is_first(ranks);
  SilentFiles silent(given_files);
  FileSystem& files = first ? given_files : silent;
  check_batch(config, ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis), resolved);
  TrainData data = given;
  if (!config.eval.evaluates()) {
    data.evaluation.clear();
  }
  data.checkpoint_files.emplace_back(kChangeableFile, to_yaml(changeable(resolved)));
  check_monitors(config, given_task, data, resolved);
  check_no_sweep(files, config.run.directory());
  if (!first) {
    meet(ranks, "run directory");  // that the first rank makes
  }
  RunDirectory directory(files, config.run.directory());
  std::optional<LogFile> log_file;
  if (first) {
    if (!start.restart) {
      log_file.emplace(files, directory.at(kLogFile));
    }
    meet(ranks, "run directory");
  }
  std::optional<std::string> newest;
  work_together(ranks, "newest checkpoint", [&] {
    if (first && !start.restart) {
      newest = newest_checkpoint(files, directory.checkpoints(), /*set_aside=*/true);
    }
  });
  const std::optional<PreviousRun> previous =
      find_previous(files, directory.path(), told(ranks, newest.value_or(""), "newest checkpoint"),
                    config, resolved, start);
  const int64_t begin = previous ? previous->progress.step : 0;
  const bool evaluates = !data.evaluation.empty();
  SessionResult result{.outcome = Outcome::kWasFinished, .step = begin};
  if (begin > config.schedule.total_steps) {
    log_warning("schedule.total_steps: {} are fewer than the {} steps that {} has made",
                config.schedule.total_steps, begin, directory.path());
  }
  const auto told_its_end = [&] { return !ended_without_its_word(files, directory.path()); };
  if (const auto key = ended_by(config, previous); key && told_its_end()) {
    result.end_reason = fmt::format("early stopping; {} eval.early_stopping.{} to go on",
                                    *key == "patience" ? "raise" : "change", *key);
    return result;
  }
  const bool owes =
      previous && begin >= config.schedule.total_steps && owes_last_visit(more, previous->progress);
  if (begin >= config.schedule.total_steps && !owes &&
      (!evaluates || has_evaluation(directory, begin)) && told_its_end()) {
    return result;
  }
  meet(ranks, "start");  // from here on the first rank changes what the others have read

  const Context context = make_context(config, start.ranks);
  const ContextScope scope(context);
  const int64_t limit = memory_of_rank(config.memory, context);
  // `auto` keeps to what the run began with, so that it goes on bit for bit.
  const bool keeps = previous && config.batch.micro.is_word() &&
                     !previous->changes_in("batch.global") &&
                     largest_micro_batch(config, context) % previous->progress.micro_batch == 0;
  const int64_t kept = keeps ? previous->progress.micro_batch : 0;
  TrainTask task = given_task;
  if (previous) {
    const bool is_anew = previous->data() == Trainer::Data::kAnew;
    task.begin = {previous->progress.seed, begin, is_anew ? 0 : previous->progress.samples};
  }
  const PlannedRun run = plan_together(task, config, context, limit, evaluates, kept);
  if (previous && run.plan.micro != previous->progress.micro_batch) {
    log_info("batch.micro: {}, was {}: sums are formed in another order from here on",
             run.plan.micro, previous->progress.micro_batch);
  }
  refuse_together(run.plan, limit, refuse);

  Trainer trainer(task, data, config, *run.step);
  if (previous) {
    warn_of_another_machine(*previous);
    trainer.restore(files, previous->folder, run.plan.micro, previous->data());
    log_info("{}: going on from step {}", directory.path(), begin);
    for (const KeyChange& change : previous->changes) {
      if (may_change(change.key) != Changing::kFreely) {
        log_info("from here on {}", describe(change));
      }
    }
  } else {
    const auto seed = static_cast<uint64_t>(config.run.seed);
    if (start.restart && more.empty() && data.outside == nullptr) {
      read_first(data, config, seed, run.plan.micro, ranks);
    }
    trainer.start(seed, run.plan.micro);
  }
  if (start.restart) {
    // Whatever could keep the run from its first step has been met.
    meet(ranks, "restart");
    if (first) {
      if (directory.clear()) {
        log_info("{}: what an earlier run had written is removed", directory.path());
      }
      log_file.emplace(files, directory.at(kLogFile));
    } else {
      meet(ranks, "restart");
    }
    if (start.cleared != nullptr) {
      start.cleared();
    }
    if (first) {
      meet(ranks, "restart");
    }
  }
  context.allocator->trim();
  write_file_atomic(files, directory.at(kConfigFile), to_yaml(resolved));
  if (config.fusion.explain) {
    write_file_atomic(files, directory.at(kFusionFile), fusion_text(run));
  }
  if (data.pictures != nullptr && (!previous || !previous->changes.empty())) {
    write_pictures(directory, data,
                   previous ? previous->progress.seed : static_cast<uint64_t>(config.run.seed));
  }

  if (first) {
    meet(ranks, "metrics");  // that the others have read
  }
  MetricsLog log(directory, config, run.plan.units,
                 previous ? MetricsLog::kept(begin, previous->progress.callbacks) : MetricsKept(0));
  std::optional<LayerLog> layers;
  if (!config.log.layers.is_word()) {
    layers.emplace(directory, config, log, begin);
  }
  if (!first) {
    meet(ranks, "metrics");
  }
  log.events().hyperparameters(flatten_config(resolved), wall_clock());
  Progress progress(config, run.plan.units, first);
  Evaluation evaluation(run.loss.get(), task, data, config, run.plan.micro, log, progress, stop);
  const bool asynchronous = least(ranks, run.plan.snapshot_bytes > 0 ? 1 : 0, "plan") != 0;
  Saver saver(directory, config, log, asynchronous, begin);
  if (owes) {
    saver.save_again();
  }
  Profiler profiler(directory, config, *run.step, begin, [&](const Context& context) {
    return start.planned_step ? start.planned_step(context, run.plan.micro * config.parallel.copies)
                              : std::nullopt;
  });
  const RunStart run_start{begin, start.command,
                           previous ? previous->changes : std::vector<KeyChange>()};
  Reporter reporter(directory, config, run.plan, run_start, evaluation, saver);
  // Each sees what those before it did: a checkpoint holds what an evaluation led to, the report what was saved.
  // Every rank has the same ones, but for what only shows what it sees.
  Callback nobody;
  std::vector<Callback*> callbacks{&log, first ? static_cast<Callback*>(&progress) : &nobody,
                                   &profiler};
  if (layers) {
    callbacks.push_back(&*layers);
  }
  callbacks.push_back(&evaluation);
  std::optional<TimeLimit> time_limit;
  if (config.run.time_limit_hours) {
    callbacks.push_back(&time_limit.emplace(*config.run.time_limit_hours, clock_begin));
  }
  std::optional<ReduceOnPlateau> reduce;
  if (config.schedule.reduce_on_plateau) {
    callbacks.push_back(&reduce.emplace(*config.schedule.reduce_on_plateau));
  }
  std::optional<EarlyStopping> early_stopping;
  if (config.eval.early_stopping) {
    callbacks.push_back(&early_stopping.emplace(*config.eval.early_stopping, saver));
    reporter.follow(*early_stopping);
  }
  callbacks.insert(callbacks.end(), more.begin(), more.end());
  callbacks.insert(callbacks.end(), {&saver, &reporter});
  outlive_output();
  const HeedInterrupts heeds;
  reporter.began(begin);
  bool finished = false;
  try {
    finished = trainer.run(callbacks, stop);
  } catch (const std::exception& error) {
    if (log_file) {
      log_file->note(LogLevel::kError, error.what());
    }
    log.failed(trainer);
    reporter.failed(trainer.step(), error.what());
    throw;
  }
  log_info(
      "memory: {} planned; the process took {} at its peak, {} of it before the run began; mapped "
      "files, such as weights, count in both, and without them it takes {} now",
      gigabytes(run.plan.total()), gigabytes(peak_memory_bytes()),
      gigabytes(reporter.memory_before()), gigabytes(own_memory_bytes()));
  if (data.outside != nullptr) {
    if (const std::string text = data.outside->describe(); !text.empty()) {
      log_info("{}", text);
    }
  }
  // An evaluation that was cut short is made up for when the run is started again.
  const bool complete = finished && (!evaluates || log.evaluated(trainer.step()));
  result.outcome = complete ? Outcome::kFinished : Outcome::kInterrupted;
  result.step = trainer.step();
  result.evaluation = evaluation.last();
  result.samples = evaluation.samples();
  if (config.parallel.pipeline == 1 && !run.step->has_parts_of_parameters() &&
      !run.step->parts().shares()) {
    result.params = trainer.params();
  }
  result.end_reason = trainer.end_reason();
  result.restored = early_stopping ? early_stopping->restored() : std::nullopt;
  result.best = saver.best();
  return result;
}

}  // namespace mstrain
