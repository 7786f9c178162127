#include "launcher/inspect_run.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/config.h"
#include "core/base/json.h"
#include "core/base/written_yaml.h"
#include "core/io/folder.h"
#include "core/train/checkpoint.h"
#include "core/train/metrics.h"
#include "core/train/metrics_file.h"
#include "core/train/numbers.h"
#include "core/train/run_directory.h"
#include "core/train/run_record.h"
#include "core/train/sweep.h"

namespace mstrain::launcher {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;

// Text of a member; empty where there is none. run.json may be of an earlier version.
std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    return "";
  }
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// A number to six digits, as the log has it to four.
std::string number(const Json& value) {
  return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : value.dump();
}

void print_fact(std::FILE* out, std::string_view name, const std::string& value) {
  if (!value.empty()) {
    fmt::print(out, "  {:<10} {}\n", name, value);
  }
}

std::string after(const char* between, const std::string& value) {
  return value.empty() ? "" : between + value;
}

std::string command_line(const Json& json) {
  std::string out;
  if (const auto command = json.find("command"); command != json.end() && command->is_array()) {
    for (const Json& word : *command) {
      out += (out.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : word.dump());
    }
  }
  return out;
}

void print_history(std::FILE* out, const Json& history) {
  fmt::print(out, "  history\n");
  for (const Json& start : history) {
    fmt::print(out, "    step {} to {}: {}{}{}{}\n", text(start, "step"), text(start, "last_step"),
               text(start, "status"), after(", ", text(start, "reason")),
               after(", begun ", text(start, "time")), after(", ", command_line(start)));
    const auto changes = start.find("changes");
    for (const Json& change : changes == start.end() ? Json::array() : *changes) {
      fmt::print(out, "      {}: {}, now {}\n", text(change, "key"), text(change, "before"),
                 text(change, "now"));
    }
  }
}

void print_record(std::FILE* out, const Json& run) {
  print_fact(out, "status",
             fmt::format("{} at step {} of {}{}", text(run, "status"), text(run, "step"),
                         text(run, "total_steps"), after(": ", text(run, "reason"))));
  print_fact(out, "started", text(run, "started"));
  print_fact(out, "updated", text(run, "updated"));
  print_fact(out, "command", command_line(run));
  print_fact(out, "directory", text(run, "directory"));
  print_fact(out, "commit", text(run, "commit"));
  const Json machine = run.value("machine", Json::object());
  print_fact(out, "machine",
             text(run, "host") + after(", ", text(machine, "processors")) +
                 after(" processors of ", text(machine, "processor")));
  if (const std::string step = text(run, kWeightsOf); !step.empty()) {
    print_fact(out, "weights", fmt::format("those of step {} again", step));
  }
  if (const auto best = run.find("best"); best != run.end() && best->is_object()) {
    print_fact(out, "best",
               fmt::format("{} {} at step {}, {}", text(*best, "metric"),
                           number(best->value("value", Json())), text(*best, "step"),
                           text(*best, "checkpoint")));
  }
  if (const auto history = run.find("history"); history != run.end() && history->is_array()) {
    print_history(out, *history);
  }
}

void print_metrics(std::FILE* out, const std::vector<Json>& rows) {
  std::vector<std::string> keys{"loss", kEvalLoss};
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (key.starts_with(kEvalLoss + std::string("/")) &&
          std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  for (const std::string& key : keys) {
    const Json* last = nullptr;
    const Json* least = nullptr;
    for (const Json& row : rows) {
      if (const auto value = row.find(key); value != row.end() && value->is_number()) {
        last = &row;
        least = least == nullptr || *value < least->at(key) ? &row : least;
      }
    }
    if (last != nullptr) {
      print_fact(
          out, key,
          fmt::format("{} at step {}, least {} at step {}", number(last->at(key)),
                      last->at("step").dump(), number(least->at(key)), least->at("step").dump()));
    }
  }
}

}  // namespace

void print_run(FileSystem& files, const std::string& path, std::FILE* out) {
  fmt::print(out, "{}: run directory\n", path);
  if (const std::string run = join_path(path, kRunFile); files.exists(run)) {
    Json record = parse_json(files.read(run, kMostBytes), run);
    tell_whether_stopped(files, path, record);
    print_record(out, record);
  }
  print_metrics(out, read_metrics(files, join_path(path, kMetricsFile)));
  const std::string checkpoints = join_path(path, "checkpoints");
  for (const int64_t step : list_checkpoints(files, checkpoints)) {
    const auto problems = verify_folder(files, join_path(checkpoints, checkpoint_name(step)));
    fmt::print(out, "  checkpoints/{}: {}\n", checkpoint_name(step),
               problems.empty() ? "sound" : problems.front());
  }
  if (const std::string config = join_path(path, kConfigFile); files.exists(config)) {
    fmt::print(out, "  configuration\n");
    for (const auto& [key, value] : flatten_config(read_written_yaml(files, config))) {
      fmt::print(out, "    {}: {}\n", key, value);
    }
  }
}

void print_sweep(FileSystem& files, const std::string& path, std::FILE* out) {
  const std::string file = join_path(path, kSweepFile);
  Json sweep = parse_json(files.read(file, kMostBytes), file);
  tell_whether_stopped(files, path, sweep);
  const std::string best = text(sweep, "best");
  fmt::print(out, "{}: sweep\n", path);
  print_fact(out, "status", text(sweep, "status") + after(": ", text(sweep, "reason")));
  print_fact(out, "method", text(sweep, "method"));
  print_fact(out, "metric", text(sweep, "metric"));
  for (const Json& run : sweep.value("runs", Json::array())) {
    std::string values;
    const Json given = run.value("values", Json::object());
    for (const auto& [key, value] : given.items()) {
      values +=
          fmt::format("  {} {}", key, value.is_string() ? value.get<std::string>() : number(value));
    }
    const Json result = run.value("value", Json());
    fmt::print(
        out, "  runs/{}{}  {}{}{}{}\n", text(run, "id"), values, text(run, "status"),
        after(": ", text(run, "reason")),
        result.is_number() ? fmt::format(", {} at step {}", number(result), text(run, "step")) : "",
        text(run, "id") == best ? ", the best" : "");
  }
}

}  // namespace mstrain::launcher
