#include "core/train/sweep.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/written_yaml.h"
#include "core/comm/communicator.h"
#include "core/train/metrics_file.h"
#include "core/train/previous_run.h"
#include "core/train/report.h"
#include "core/train/report_data.h"
#include "core/train/run_record.h"

namespace mstrain {
namespace {

constexpr const char* kWaiting = "waiting";
constexpr uint64_t kMostBytes = 16 << 20;

// One that failed after it had measured what it is compared by has a result.
bool has_failed(const TrialResult& trial) { return trial.status == kStatusFailed && !trial.value; }

// What the page and people read: a number where it is one.
OrderedJson value_json(const YamlNode& value) {
  return value.is_scalar() || value.is_null() ? to_json(value) : OrderedJson(to_flow(value));
}

}  // namespace

void StopAtStep::on_state(Trainer& trainer, Moment) {
  trainer.end(Trainer::End::kInterrupted, "the sweep compares its runs here");
}

Sweep::Sweep(FileSystem& files, SweptRun swept, const SweepConfig& sweep, const YamlNode& resolved,
             Resolve resolve)
    : files_(files),
      swept_(std::move(swept)),
      sweep_(sweep),
      resolved_(resolved),
      resolve_(std::move(resolve)),
      monitor_(sweep.metric, swept_.better),
      rungs_(sweep_rungs(swept_, sweep)) {
  for (SweepTrial& trial : sweep_trials(sweep)) {
    trials_.push_back({.trial = std::move(trial), .status = kWaiting});
    for (const int64_t rung : rungs_) {
      read_value(trials_.back(), rung);
    }
  }
}

std::string Sweep::directory_of(const SweepTrial& trial) const {
  return join_path(join_path(swept_.directory, kSweepRuns), trial.id);
}

std::string Sweep::name_of(const SweepTrial& trial) const {
  return fmt::format("{}-{}", swept_.name, trial.id);
}

void Sweep::begin(const SweepTrial& trial) const {
  const std::string runs = join_path(swept_.directory, kSweepRuns);
  for (const std::string& id : files_.list(runs)) {
    if (id != trial.id) {
      files_.remove_all(join_path(runs, id));
    }
  }
  write_file_atomic(files_, join_path(swept_.directory, kSweepConfigFile), to_yaml(resolved_));
  write(kStatusRunning);
}

void Sweep::check_same(bool restart) const {
  const std::string path = join_path(swept_.directory, kSweepConfigFile);
  if (!files_.exists(path)) {
    if (is_run_directory(files_, swept_.directory)) {
      throw ConfigError(fmt::format(
          "{}: holds a run that is no sweep; choose another run.output_dir", swept_.directory));
    }
    return;
  }
  if (restart) {
    return;
  }
  std::string changed;
  const YamlNode before = with_defaults(read_written_yaml(files_, path), resolve_);
  for (const KeyChange& change : changed_keys(before, resolved_)) {
    // More draws are more runs; the first ones stay what they were.
    const bool may = change.key == "sweep.runs" ? sweep_.method == SweepMethod::kRandom
                                                : !change.key.starts_with("sweep.") &&
                                                      may_change(change.key) == Changing::kFreely;
    if (!may) {
      changed += (changed.empty() ? "" : "; ") + describe(change);
    }
  }
  if (!changed.empty()) {
    throw ConfigError(fmt::format(
        "{}: this sweep began with other values ({}); restore them, choose another run.output_dir, "
        "or begin anew with --restart",
        path, changed));
  }
}

bool Sweep::read_value(TrialResult& trial, int64_t rung) const {
  const std::string directory = directory_of(trial.trial);
  const std::string run_path = join_path(directory, kRunFile);
  if (!files_.exists(run_path)) {
    return false;
  }
  const Json run = parse_json(files_.read(run_path, kMostBytes), run_path);
  trial.status = run.value("status", kWaiting);
  trial.reason = trial.status == kStatusFailed ? run.value("reason", "") : "";
  // Its last evaluation comes before its last checkpoint, which is yet to be written.
  if (rung == rungs_.back() && ended_without_its_word(files_, directory)) {
    return false;
  }
  const bool ended = trial.status == kStatusFinished;
  bool has_measured = false;
  for (const Json& row : read_metrics(files_, join_path(directory, kMetricsFile))) {
    const auto value = row.find(sweep_.metric);
    const int64_t at = row["step"].get<int64_t>();
    if (at < rung && !ended) {
      continue;
    }
    has_measured = has_measured || is_evaluation(row) || value != row.end();
    if (value == row.end() || !value->is_number()) {
      continue;
    }
    trial.value = value->get<double>();
    trial.step = at;
    trial.rung = rung;
    const auto predictions = row.find(kPredictions);
    trial.predictions = predictions == row.end() ? 0 : predictions->get<int64_t>();
    if (at >= rung) {
      break;
    }
  }
  return has_measured;
}

std::optional<size_t> Sweep::best() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < trials_.size(); ++i) {
    // Of a halving, what came farthest: a value after few steps is no match for one after many.
    const TrialResult& trial = trials_[i];
    if (trial.value && (!best || trial.rung > trials_[*best].rung ||
                        (trial.rung == trials_[*best].rung &&
                         monitor_.better(*trial.value, trials_[*best].value)))) {
      best = i;
    }
  }
  return best;
}

std::string Sweep::describe_runs() const {
  constexpr size_t kMostShown = 50;
  std::string out = fmt::format("sweep of {} runs, compared at step {}\n", trials_.size(),
                                fmt::join(rungs_, ", "));
  for (size_t i = 0; i < std::min(kMostShown, trials_.size()); ++i) {
    const TrialResult& trial = trials_[i];
    out += fmt::format("  {}  {}  {}", trial.trial.id, describe(sweep_, trial.trial), trial.status);
    if (trial.value) {
      out += fmt::format(": {} {:.6g} at step {}", sweep_.metric, *trial.value, trial.step);
    }
    out += "\n";
  }
  if (trials_.size() > kMostShown) {
    out += fmt::format("  and {} more\n", trials_.size() - kMostShown);
  }
  return out;
}

std::string Sweep::describe_result(const SweepResult& result) const {
  if (result.interrupted) {
    return fmt::format("{}: interrupted; the same command goes on\n", swept_.directory);
  }
  std::string out;
  if (result.best) {
    const TrialResult& best = result.trials[*result.best];
    out = fmt::format("best {} {:.6f}: {}, {}\n", sweep_.metric, *best.value,
                      describe(sweep_, best.trial), directory_of(best.trial));
  }
  return out + fmt::format("open {} in a browser\n", join_path(swept_.directory, kReportFile));
}

void Sweep::check_result(const SweepResult& result) const {
  std::vector<std::string> failed;
  for (const TrialResult& trial : result.trials) {
    if (trial.status == kStatusFailed) {
      failed.push_back(trial.trial.id);
    }
  }
  check(failed.empty(), "{}: {} of {} runs failed: {}; the same command tries {} again",
        swept_.directory, failed.size(), result.trials.size(), fmt::join(failed, ", "),
        failed.size() == 1 ? "it" : "them");
  check(result.best.has_value(), "{}: no run of the sweep has a result", swept_.directory);
}

void Sweep::compare_predictions() const {
  int64_t fewest = 0;
  int64_t most = 0;
  for (const TrialResult& trial : trials_) {
    if (trial.value && trial.predictions > 0) {
      fewest = fewest == 0 ? trial.predictions : std::min(fewest, trial.predictions);
      most = std::max(most, trial.predictions);
    }
  }
  if (fewest < most) {
    log_warning(
        "sweep: the runs' {} are means over different numbers of predictions, {} to {}: by them no "
        "run is better than another",
        sweep_.metric, fewest, most);
  }
}

std::vector<size_t> Sweep::promoted(const std::vector<size_t>& of) const {
  std::vector<size_t> order = of;
  std::erase_if(order, [&](size_t i) { return !trials_[i].value; });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return monitor_.better(*trials_[a].value, trials_[b].value);
  });
  const auto keep =
      (order.size() + static_cast<size_t>(sweep_.factor) - 1) / static_cast<size_t>(sweep_.factor);
  order.resize(keep);
  std::sort(order.begin(), order.end());
  return order;
}

void Sweep::write(const char* status) const {
  OrderedJson json{{"name", swept_.name},
                   {"status", status},
                   {"method", to_json(*find_config(resolved_, "sweep.method"))},
                   {"metric", sweep_.metric},
                   {"larger_is_better", monitor_.larger_is_better()},
                   {"keys", OrderedJson::array()},
                   {"rungs", rungs_},
                   {"runs", OrderedJson::array()}};
  for (const SweepKey& key : sweep_.keys) {
    json["keys"].push_back(key.key);
  }
  std::vector<std::string> directories;
  for (const TrialResult& trial : trials_) {
    OrderedJson values = OrderedJson::object();
    for (size_t i = 0; i < sweep_.keys.size(); ++i) {
      values[sweep_.keys[i].key] = value_json(trial.trial.values[i]);
    }
    json["runs"].push_back({{"id", trial.trial.id},
                            {"values", std::move(values)},
                            {"status", trial.status},
                            {"reason", trial.reason},
                            {"step", trial.step},
                            {"value", trial.value ? OrderedJson(*trial.value) : OrderedJson()}});
    if (const std::string directory = directory_of(trial.trial);
        is_run_directory(files_, directory)) {
      directories.push_back(directory);
    }
  }
  if (const auto found = best()) {
    json["best"] = trials_[*found].trial.id;
  }
  write_file_atomic(files_, join_path(swept_.directory, kSweepFile), json.dump(2) + "\n");
  write_file_atomic(files_, join_path(swept_.directory, kReportFile),
                    report_html(files_, directories, json));
}

SweepResult Sweep::run(const Run& run, const std::atomic<bool>& stop, bool restart,
                       const Aside& aside) {
  files_.create_directories(swept_.directory);
  const auto lock = lock_run(files_, swept_.directory);
  check(lock != nullptr,
        "{}: another mstrain is at work here; wait for it or choose another run.output_dir",
        swept_.directory);
  check_same(restart);
  bool begun = !restart;
  if (begun) {
    write_file_atomic(files_, join_path(swept_.directory, kSweepConfigFile), to_yaml(resolved_));
  } else {
    for (TrialResult& trial : trials_) {
      trial = {.trial = std::move(trial.trial), .status = kWaiting};
    }
  }
  std::vector<size_t> active(trials_.size());
  std::iota(active.begin(), active.end(), size_t{0});
  bool interrupted = false;
  for (const int64_t rung : rungs_) {
    for (size_t turn = 0; turn < active.size() && !interrupted; ++turn) {
      TrialResult& trial = trials_[active[turn]];
      std::function<void()> cleared;
      if (begun) {
        trial.value.reset();
        if (read_value(trial, rung) && !has_failed(trial)) {
          continue;
        }
        aside([&] { write(kStatusRunning); });
      } else {
        cleared = [&, &first = trial.trial] {
          begin(first);
          begun = true;
        };
      }
      log_info("sweep: run {} ({} of {}) up to step {}: {}", trial.trial.id, turn + 1,
               active.size(), rung, describe(sweep_, trial.trial));
      try {
        const Outcome outcome = run(trial.trial, rung, cleared);
        const bool has_measured = read_value(trial, rung);
        interrupted = stop || (outcome == Outcome::kInterrupted && !has_measured);
      } catch (const CommError&) {
        throw;
      } catch (const Error& error) {
        if (begun) {  // what it has measured counts at the next start, and must here
          read_value(trial, rung);
        }
        trial.status = kStatusFailed;
        trial.reason = error.what();
        log_warning("sweep: run {} failed: {}", trial.trial.id, error.what());
        if (!begun && turn + 1 == active.size()) {
          throw;
        }
      }
    }
    if (interrupted) {
      break;
    }
    if (rung != rungs_.back()) {
      std::vector<size_t> kept = promoted(active);
      for (const size_t i : active) {
        if (std::find(kept.begin(), kept.end(), i) == kept.end() && !has_failed(trials_[i])) {
          trials_[i].status = kStatusLeftBehind;
          leave_behind(files_, directory_of(trials_[i].trial), rung);
        }
      }
      active = std::move(kept);
    }
  }
  compare_predictions();
  if (begun) {
    aside([&] { write(interrupted ? kStatusInterrupted : kStatusFinished); });
  }
  return {trials_, best(), interrupted};
}

}  // namespace mstrain
