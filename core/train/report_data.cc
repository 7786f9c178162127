#include "core/train/report_data.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "core/base/written_yaml.h"
#include "core/train/find_lr.h"
#include "core/train/layer_log.h"
#include "core/train/lineage.h"
#include "core/train/log_file.h"
#include "core/train/metrics.h"
#include "core/train/metrics_file.h"
#include "core/train/profile.h"
#include "core/train/run_directory.h"
#include "core/train/run_record.h"

namespace mstrain {
namespace {

constexpr size_t kMaxPoints = 1500;  // of one curve; more do not show on a screen
constexpr uint64_t kMostBytes = 16 << 20;

using Rows = std::vector<const Json*>;

std::optional<double> number(const Json& row, const std::string& key) {
  const auto value = row.find(key);
  return value != row.end() && value->is_number() ? std::optional(value->get<double>())
                                                  : std::nullopt;
}

// Columns of numbers. Neighbouring rows are averaged where there are too many; `step` is that of the last one.
OrderedJson columns(const Rows& rows, const std::vector<std::string>& keys) {
  const size_t stride = (rows.size() + kMaxPoints - 1) / kMaxPoints;
  OrderedJson out;
  for (const std::string& key : keys) {
    OrderedJson values = OrderedJson::array();
    const bool last = key == "step";
    for (size_t begin = 0; begin < rows.size(); begin += stride) {
      const size_t end = std::min(rows.size(), begin + stride);
      double sum = 0;
      double count = 0;
      for (size_t i = last ? end - 1 : begin; i < end; ++i) {
        if (const auto value = number(*rows[i], key)) {
          sum += *value;
          ++count;
        }
      }
      values.push_back(count > 0 ? OrderedJson(sum / count) : OrderedJson());
    }
    out[key] = std::move(values);
  }
  return out;
}

// The names of held-out data that have measures of their own.
std::vector<std::string> sets_in(const Rows& evaluations) {
  std::vector<std::string> sets;
  for (const Json* row : evaluations) {
    for (const auto& [key, value] : row->items()) {
      const std::string set = key.substr(std::min(key.find('/'), key.size() - 1) + 1);
      if (!set.empty() && is_evaluation(*row, set) && !std::ranges::count(sets, set)) {
        sets.push_back(set);
      }
    }
  }
  return sets;
}

// The least loss and its step.
OrderedJson best_of(const Rows& evaluations, const std::string& key) {
  OrderedJson best;
  for (const Json* row : evaluations) {
    const auto value = number(*row, key);
    if (value && (best.is_null() || *value < best["value"].get<double>())) {
      best = {{"value", *value}, {"step", (*row)["step"]}};
    }
  }
  return best;
}

// Curves of all held-out data, and of each set with a name.
OrderedJson evaluation_data(const Rows& evaluations) {
  std::vector<std::string> sets = sets_in(evaluations);
  sets.insert(sets.begin(), "");
  OrderedJson out = OrderedJson::array();
  for (const std::string& set : sets) {
    std::vector<std::string> keys{"step", of_set(kPredictions, set)};
    for (const MetricKind& kind : kMetricKinds) {
      keys.push_back(of_set(kind.name, set));
    }
    Rows rows;
    for (const Json* row : evaluations) {
      if (is_evaluation(*row, set)) {
        rows.push_back(row);
      }
    }
    OrderedJson found = columns(rows, keys);
    OrderedJson curves;
    for (auto& [key, values] : found.items()) {
      curves[key.substr(0, key.find('/'))] = std::move(values);
    }
    curves["set"] = set;
    curves["best"] = best_of(rows, of_set(kEvalLoss, set));
    out.push_back(std::move(curves));
  }
  return out;
}

OrderedJson config_data(FileSystem& files, const std::string& path) {
  OrderedJson out = OrderedJson::array();
  if (files.exists(path)) {
    for (auto& [key, value] : flatten_config(read_written_yaml(files, path))) {
      out.push_back({key, value});
    }
  }
  return out;
}

Json json_in(FileSystem& files, const std::string& path) {
  return files.exists(path) ? parse_json(files.read(path, kMostBytes), path) : Json();
}

// What the run began from, with the configuration that it has now; null where it began from nothing.
OrderedJson origin_data(FileSystem& files, const OrderedJson& run, const std::string& config_path) {
  if (!files.exists(config_path)) {
    return nullptr;
  }
  const YamlNode config = read_written_yaml(files, config_path);
  const YamlNode* from = find_config(config, "model.init.from");
  if (from == nullptr || !from->is_scalar()) {
    return nullptr;
  }
  const auto folder = run.find("directory");
  const Origin origin = origin_of(
      files, from->text,
      folder != run.end() && folder->is_string() ? folder->get<std::string>() : std::string("."));
  OrderedJson out{
      {"path", origin.path}, {"run", origin.run_directory}, {"checkpoint", origin.checkpoint}};
  if (!origin.run_directory.empty()) {
    out["config"] = config_data(files, join_path(origin.run_directory, kConfigFile));
  }
  return out;
}

// Norms by parameter: rows of numbers over the steps; of many looks every n-th.
OrderedJson layers_data(FileSystem& files, const std::string& path) {
  constexpr size_t kMostLooks = 200;
  const std::vector<Json> rows = read_metrics(files, path);
  if (rows.empty()) {
    return nullptr;
  }
  const size_t stride = (rows.size() + kMostLooks - 1) / kMostLooks;
  OrderedJson out{{"names", OrderedJson(rows.back().value("names", Json::array()))}};
  for (size_t i = (rows.size() - 1) % stride; i < rows.size(); i += stride) {
    for (const char* key : {"step", "weight", "gradient"}) {
      const auto found = rows[i].find(key);
      out[key].push_back(found == rows[i].end() ? OrderedJson() : OrderedJson(*found));
    }
  }
  return out;
}

// What agents' evaluations looked like; of many every n-th, and the last one.
OrderedJson evaluations_data(FileSystem& files, const std::string& path) {
  constexpr size_t kMostLooks = 24;
  const std::vector<Json> rows = read_metrics(files, path);
  const size_t stride = (rows.size() + kMostLooks - 1) / kMostLooks;
  OrderedJson out = OrderedJson::array();
  for (size_t i = rows.empty() ? 0 : (rows.size() - 1) % stride; i < rows.size(); i += stride) {
    out.push_back(OrderedJson(rows[i]));
  }
  return out;
}

// What an agent's rows measure besides that which every run does: the parts of its loss, and further numbers by their names.
std::vector<std::string> parts_in(const Rows& training) {
  constexpr std::string_view kOthers[] = {
      "step",           "env_steps",      "iteration", "episodes",
      "episode_return", "episode_length", "loss",      "lr",
      "grad_norm",      "entropy",        "kl",        "step_seconds",
      "time",           "wall_seconds"};
  std::vector<std::string> out;
  if (training.empty() || !training.back()->contains("env_steps")) {
    return out;
  }
  for (const auto& [key, value] : training.back()->items()) {
    if (value.is_number() && !key.ends_with(per_second("")) &&
        std::find(std::begin(kOthers), std::end(kOthers), key) == std::end(kOthers)) {
      out.push_back(key);
    }
  }
  return out;
}

OrderedJson samples_in(const std::vector<Json>& rows) {
  OrderedJson samples = OrderedJson::array();
  for (const Json& row : rows) {
    if (const auto found = row.find("samples"); found != row.end() && found->is_array()) {
      samples.push_back({{"step", row["step"]}, {"texts", *found}});
    }
  }
  constexpr size_t kMaxSamples = 12;  // the newest; a run may have thousands
  while (samples.size() > kMaxSamples) {
    samples.erase(0);
  }
  return samples;
}

}  // namespace

bool is_run_directory(FileSystem& files, const std::string& directory) {
  return files.exists(join_path(directory, kMetricsFile)) ||
         files.exists(join_path(directory, kConfigFile)) ||
         files.exists(join_path(directory, kFindLrFile));
}

OrderedJson run_data(FileSystem& files, const std::string& directory) {
  const auto at = [&](const char* name) { return join_path(directory, name); };
  check_exists(files, directory);
  if (!is_run_directory(files, directory)) {
    throw IoError(fmt::format("{}: is no run directory: it has no {}", directory, kMetricsFile));
  }
  const std::vector<Json> rows = read_metrics(files, at(kMetricsFile));
  Rows training;
  Rows evaluations;
  Rows returns;  // of an agent's evaluations
  Rows matches;
  for (const Json& row : rows) {
    if (row.contains("eval_return")) {
      returns.push_back(&row);
    }
    if (row.contains("match_score")) {
      matches.push_back(&row);
    }
    if (row.contains("loss")) {
      training.push_back(&row);
    }
    if (is_evaluation(row)) {
      evaluations.push_back(&row);
    }
  }
  Json record = json_in(files, at(kRunFile));
  tell_whether_stopped(files, directory, record);
  OrderedJson run = record.is_object() ? OrderedJson(record) : OrderedJson::object();
  const auto unit = run.find("unit");
  const bool is_named = unit != run.end() && unit->is_string();
  const std::string rate_key = per_second(is_named ? unit->get<std::string>() : "token");
  OrderedJson train = columns(training, {"step",           "loss",          "lr",
                                         "grad_norm",      rate_key,        "step_seconds",
                                         kBusyProcessors,  kResidentBytes,  "episode_return",
                                         "episode_length", "entropy",       "kl",
                                         "evaluator_busy", "replay_age",    "game_length",
                                         "policy_entropy", "reward",        "accuracy",
                                         "margin",         "chosen_reward", "rejected_reward"});
  train["rate"] = train[rate_key];  // whatever its unit
  OrderedJson parts = columns(training, parts_in(training));
  const std::optional<ProfileSummary> profile = read_profile(files, at(kProfileFile));
  OrderedJson out{{"directory", directory},
                  {"real", real_path(directory)},
                  {"config", config_data(files, at(kConfigFile))},
                  {"train", std::move(train)},
                  {"eval", evaluation_data(evaluations)},
                  {"returns", columns(returns, {"step", "eval_return", "eval_return_least",
                                                "eval_return_median", "eval_return_most"})},
                  {"matches", columns(matches, {"step", "match_score", "match_elo", "elo"})},
                  {"layers", layers_data(files, at(kLayersFile))},
                  {"parts", std::move(parts)},
                  {"evaluations", evaluations_data(files, at(kEvaluationsFile))},
                  {"samples", samples_in(rows)},
                  {"pictures", json_in(files, at(kPicturesFile))},
                  {"profile", profile ? to_json(*profile) : OrderedJson()},
                  {"find_lr", json_in(files, at(kFindLrFile))},
                  {"origin", origin_data(files, run, at(kConfigFile))},
                  {"log", log_tail(files, at(kLogFile))},
                  {"run", std::move(run)}};
  out["name"] = run_name(out);
  return out;
}

std::string run_name(const OrderedJson& data) {
  const auto name = data["run"].find("name");
  return name != data["run"].end() && name->is_string()
             ? name->get<std::string>()
             : file_name(data["directory"].get<std::string>());
}

std::string print_lossy(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson report_data(FileSystem& files, std::span<const std::string> directories,
                        const OrderedJson& sweep) {
  OrderedJson runs = OrderedJson::array();
  for (const std::string& directory : directories) {
    runs.push_back(run_data(files, directory));
  }
  OrderedJson out{{"runs", std::move(runs)}, {"sweep", sweep}};
  if (!sweep.is_null()) {
    out["title"] = sweep["name"];
  }
  return out;
}

}  // namespace mstrain
