#include "core/train/run_record.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/io/git.h"
#include "core/train/machine.h"
#include "core/train/metrics_file.h"
#include "core/train/metrics_log.h"
#include "core/train/numbers.h"

namespace mstrain {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

OrderedJson to_json(const std::vector<KeyChange>& changes) {
  OrderedJson out = OrderedJson::array();
  for (const KeyChange& change : changes) {
    out.push_back({{"key", change.key}, {"before", change.before}, {"now", change.now}});
  }
  return out;
}

OrderedJson earlier_history(const RunDirectory& directory) {
  const std::string path = directory.at(kRunFile);
  if (directory.files().exists(path)) {
    try {
      const auto json = OrderedJson::parse(directory.files().read(path, kMostBytes));
      const auto found = json.find("history");
      if (found != json.end() && found->is_array()) {
        return *found;
      }
    } catch (const OrderedJson::exception& error) {
      log_warning("{}: cannot be read, its history is lost: {}", path, error.what());
    }
  }
  return OrderedJson::array();
}

// What was written at `key` some time before `step` was made tells of this step.
template <class J>
void reach(J& entry, const char* key, int64_t step) {
  if (const auto found = entry.find(key); found != entry.end() && found->is_number_integer()) {
    *found = std::max(found->template get<int64_t>(), step);
  }
}

}  // namespace

void tell_whether_stopped(FileSystem& files, const std::string& directory, Json& record) {
  const bool runs = record.is_object() && record.value("status", Json()) == kStatusRunning;
  if (!runs || record.value("host", Json(host_name())) != host_name() ||
      is_at_work(files, directory)) {
    return;
  }
  record["status"] = kStatusStopped;
  record["reason"] = kStoppedReason;
  // The record is written now and then, measurements as they come.
  const std::vector<Json> rows = read_metrics(files, join_path(directory, kMetricsFile));
  const int64_t last = rows.empty() ? 0 : rows.back()["step"].get<int64_t>();
  reach(record, "step", last);
  if (const auto history = record.find("history"); history != record.end() && history->is_array() &&
                                                   !history->empty() &&
                                                   history->back().is_object()) {
    history->back()["status"] = kStatusStopped;
    reach(history->back(), "last_step", last);
  }
}

void leave_behind(FileSystem& files, const std::string& directory, int64_t step) {
  const std::string path = join_path(directory, kRunFile);
  if (!files.exists(path)) {
    return;
  }
  OrderedJson record = OrderedJson::parse(files.read(path, kMostBytes));
  if (record.value("status", "") == kStatusLeftBehind) {
    return;
  }
  record["status"] = kStatusLeftBehind;
  record["reason"] = fmt::format("others were better at step {}", step);
  if (const auto history = record.find("history");
      history != record.end() && history->is_array() && !history->empty()) {
    history->back()["status"] = kStatusLeftBehind;
  }
  write_file_atomic(files, path, record.dump(2) + "\n");
}

RunRecord::RunRecord(const RunDirectory& directory, const TrainConfig& config, const RunPlan& plan,
                     const RunStart& start)
    : directory_(directory),
      config_(config),
      plan_(plan),
      memory_before_(resident_memory_bytes()),
      history_(start.step == 0 ? OrderedJson::array() : earlier_history(directory)) {
  for (OrderedJson& earlier : history_) {
    if (earlier.is_object() && earlier.value("status", OrderedJson()) == kStatusRunning) {
      earlier["status"] = kStatusStopped;  // this start holds the lock
      // It came at least as far as the checkpoint that it left, which may be newer than its last word.
      reach(earlier, "last_step", start.step);
    }
  }
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  OrderedJson entry{{"step", start.step},
                    {"time", utc_text(wall_clock())},
                    {"command", start.command},
                    {"directory", folder},
                    {"commit", git_commit(directory.files(), folder).value_or("")},
                    {"host", host_name()},
                    {"machine", to_json(this_machine())}};
  if (!start.changes.empty()) {
    entry["changes"] = to_json(start.changes);
  }
  history_.push_back(std::move(entry));
}

OrderedJson RunRecord::memory() const {
  return {{"planned_memory_bytes", plan_.total()},
          {"peak_memory_bytes", std::max(peak_memory_bytes(), memory_before_)},
          {"memory_before_bytes", memory_before_}};
}

void RunRecord::note_ranks(const std::vector<std::string>& memories) {
  ranks_ = OrderedJson::array();
  for (const std::string& memory : memories) {
    ranks_.push_back(OrderedJson::parse(memory));
  }
}

void RunRecord::write(const RunState& state) {
  OrderedJson& start = history_.back();
  const std::string now = utc_text(wall_clock());
  start["last_step"] = state.step;
  start["last_time"] = now;
  start["status"] = state.status;
  OrderedJson run{{"name", config_.run.name},
                  {"status", state.status},
                  {"step", state.step},
                  {"total_steps", config_.schedule.total_steps}};
  if (!state.reason.empty()) {
    run["reason"] = state.reason;
    start["reason"] = state.reason;
  }
  const Units& units = plan_.units;
  run.update({{"started", history_.front().value("time", "")},
              {"updated", now},
              {"command", start["command"]},
              {"directory", start["directory"]},
              {"commit", start["commit"]},
              {"host", start["host"]},
              {"parameters", plan_.parameters},
              {"frozen_parameters", plan_.frozen},
              {"unit", units.name},
              {"units_per_step", units.count},
              {"micro_batch", plan_.micro},
              {"flops_per_unit", plan_.cost.flops / static_cast<double>(units.count)},
              {"processor_seconds", processor_seconds()},
              {"disk_bytes", folder_bytes(directory_.path())},
              {"disk_free_bytes", free_disk_bytes(directory_.path())},
              {"machine", start["machine"]}});
  run.update(memory());
  if (!ranks_.empty()) {
    run["ranks"] = ranks_;
  }
  for (const Metric& metric : state.metrics) {
    run[metric.name()] = metric.value;
  }
  if (state.weights_of) {
    run[kWeightsOf] = *state.weights_of;
  }
  if (state.best) {
    run["best"] = {{"metric", state.best->metric},
                   {"value", state.best->value},
                   {"step", state.best->step},
                   {"checkpoint", "checkpoints/" + state.best->checkpoint}};
  }
  run["history"] = history_;
  write_file_atomic(directory_.files(), directory_.at(kRunFile),
                    run.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

}  // namespace mstrain
