#include "core/train/sweep.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/comm/communicator.h"
#include "core/train/metrics_file.h"
#include "core/train/report.h"
#include "core/train/report_data.h"
#include "core/train/run_record.h"

namespace mstrain {
namespace {

constexpr const char* kWaiting = "waiting";
constexpr const char* kLeftBehind = "left behind";
constexpr uint64_t kMostBytes = 16 << 20;

// What the page and people read: a number where it is one.
OrderedJson value_json(const YamlNode& value) {
  return value.is_scalar() || value.is_null() ? to_json(value) : OrderedJson(to_flow(value));
}

}  // namespace

void StopAtStep::on_state(Trainer& trainer, Moment) {
  trainer.end(Trainer::End::kInterrupted, "the sweep compares its runs here");
}

Sweep::Sweep(FileSystem& files, const TrainConfig& config, const SweepConfig& sweep,
             const YamlNode& resolved)
    : files_(files),
      config_(config),
      sweep_(sweep),
      resolved_(resolved),
      directory_(config.run.directory()),
      monitor_(sweep.metric, MonitorMode::kAuto),
      rungs_(sweep_rungs(config, sweep)) {
  for (SweepTrial& trial : sweep_trials(sweep)) {
    trials_.push_back({std::move(trial), kWaiting, "", 0, std::nullopt});
    for (const int64_t rung : rungs_) {
      read_value(trials_.back(), rung);
    }
  }
}

std::string Sweep::directory_of(const SweepTrial& trial) const {
  return join_path(join_path(directory_, "runs"), trial.id);
}

std::string Sweep::name_of(const SweepTrial& trial) const {
  return fmt::format("{}-{}", config_.run.name, trial.id);
}

void Sweep::check_same() const {
  const std::string path = join_path(directory_, kSweepConfigFile);
  if (!files_.exists(path)) {
    if (is_run_directory(files_, directory_)) {
      throw ConfigError(fmt::format(
          "{}: holds a run that is no sweep; choose another run.output_dir", directory_));
    }
    return;
  }
  std::string changed;
  for (const KeyChange& change :
       changed_keys(parse_yaml(files_.read(path, kMostBytes), path), resolved_)) {
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

void Sweep::read_value(TrialResult& trial, int64_t step) const {
  const std::string directory = directory_of(trial.trial);
  const std::string run_path = join_path(directory, kRunFile);
  if (!files_.exists(run_path)) {
    return;
  }
  const Json run = parse_json(files_.read(run_path, kMostBytes), run_path);
  trial.status = run.value("status", kWaiting);
  trial.reason = trial.status == kStatusFailed ? run.value("reason", "") : "";
  const bool ended = trial.status == kStatusFinished;
  for (const Json& row : read_metrics(files_, join_path(directory, kMetricsFile))) {
    const auto value = row.find(sweep_.metric);
    const int64_t at = row["step"].get<int64_t>();
    if (value != row.end() && value->is_number() && (at == step || (ended && at <= step))) {
      trial.value = value->get<double>();
      trial.step = at;
    }
  }
}

std::optional<size_t> Sweep::best() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < trials_.size(); ++i) {
    // Of a halving, what came farthest: a value after few steps is no match for one after many.
    const TrialResult& trial = trials_[i];
    if (trial.value && (!best || trial.step > trials_[*best].step ||
                        (trial.step == trials_[*best].step &&
                         monitor_.better(*trial.value, trials_[*best].value)))) {
      best = i;
    }
  }
  return best;
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
  OrderedJson json{{"name", config_.run.name},
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
  write_file_atomic(files_, join_path(directory_, kSweepFile), json.dump(2) + "\n");
  write_file_atomic(files_, join_path(directory_, kReportFile),
                    report_html(files_, directories, json));
}

SweepResult Sweep::run(const Run& run, const std::atomic<bool>& stop, bool restart,
                       const Aside& aside) {
  files_.create_directories(directory_);
  const auto lock = lock_run(files_, directory_);
  check(lock != nullptr,
        "{}: another mstrain is at work here; wait for it or choose another run.output_dir",
        directory_);
  if (restart) {
    aside([&] {
      for (const char* name : {"runs", kSweepConfigFile, kSweepFile, kReportFile}) {
        files_.remove_all(join_path(directory_, name));
      }
    });
    for (TrialResult& trial : trials_) {
      trial = {std::move(trial.trial), kWaiting, "", 0, std::nullopt};
    }
  }
  check_same();
  write_file_atomic(files_, join_path(directory_, kSweepConfigFile), to_yaml(resolved_));
  std::vector<size_t> active(trials_.size());
  std::iota(active.begin(), active.end(), size_t{0});
  bool interrupted = false;
  for (const int64_t rung : rungs_) {
    for (size_t turn = 0; turn < active.size() && !interrupted; ++turn) {
      TrialResult& trial = trials_[active[turn]];
      trial.value.reset();
      read_value(trial, rung);
      if (trial.value) {
        continue;
      }
      aside([&] { write(kStatusRunning); });
      log_info("sweep: run {} ({} of {}) up to step {}: {}", trial.trial.id, turn + 1,
               active.size(), rung, describe(sweep_, trial.trial));
      try {
        const Outcome outcome = run(trial.trial, rung);
        read_value(trial, rung);
        interrupted = stop || (outcome == Outcome::kInterrupted && !trial.value);
      } catch (const CommError&) {
        throw;
      } catch (const Error& error) {
        trial.status = kStatusFailed;
        trial.reason = error.what();
        log_warning("sweep: run {} failed: {}", trial.trial.id, error.what());
      }
    }
    if (interrupted) {
      break;
    }
    if (rung != rungs_.back()) {
      std::vector<size_t> kept = promoted(active);
      for (const size_t i : active) {
        if (std::find(kept.begin(), kept.end(), i) == kept.end() &&
            trials_[i].status != kStatusFailed) {
          trials_[i].status = kLeftBehind;
        }
      }
      active = std::move(kept);
    }
  }
  aside([&] { write(interrupted ? kStatusInterrupted : kStatusFinished); });
  return {trials_, best(), interrupted};
}

}  // namespace mstrain
