#include "core/train/report.h"

#include <cmath>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/metrics_file.h"
#include "core/train/profile.h"
#include "core/train/run_directory.h"

namespace mstrain {
namespace {

constexpr size_t kMaxPoints = 1500;  // of one curve; more do not show on a screen

// Columns of numbers. Neighbouring rows are averaged where there are too many; `step` is that of the last one.
OrderedJson columns(const std::vector<const Json*>& rows, std::initializer_list<const char*> keys) {
  const size_t stride = (rows.size() + kMaxPoints - 1) / kMaxPoints;
  OrderedJson out;
  for (const char* key : keys) {
    OrderedJson values = OrderedJson::array();
    const bool last = std::string_view(key) == "step";
    for (size_t begin = 0; begin < rows.size(); begin += stride) {
      const size_t end = std::min(rows.size(), begin + stride);
      double sum = 0;
      double count = 0;
      for (size_t i = last ? end - 1 : begin; i < end; ++i) {
        const auto value = rows[i]->find(key);
        if (value != rows[i]->end() && value->is_number()) {
          sum += value->get<double>();
          ++count;
        }
      }
      values.push_back(count > 0 ? OrderedJson(sum / count) : OrderedJson());
    }
    out[key] = std::move(values);
  }
  return out;
}

OrderedJson config_of(FileSystem& files, const std::string& path) {
  OrderedJson out = OrderedJson::array();
  if (files.exists(path)) {
    for (auto& [key, value] : flatten_config(parse_yaml(files.read(path, 1 << 20), path))) {
      out.push_back({key, value});
    }
  }
  return out;
}

Json run_facts(FileSystem& files, const std::string& path) {
  return files.exists(path) ? parse_json(files.read(path, 1 << 20), path) : Json::object();
}

OrderedJson data_of(FileSystem& files, const std::string& directory) {
  const std::string metrics = join_path(directory, kMetricsFile);
  const std::string config = join_path(directory, kConfigFile);
  if (!files.exists(metrics) && !files.exists(config)) {
    throw IoError(fmt::format("{}: is no run directory: it has no {}", directory, kMetricsFile));
  }
  const std::vector<Json> rows = read_metrics(files, metrics);
  std::vector<const Json*> training;
  std::vector<const Json*> evaluation;
  OrderedJson samples = OrderedJson::array();
  for (const Json& row : rows) {
    if (row.contains("loss")) {
      training.push_back(&row);
    }
    if (row.contains("eval_loss")) {
      evaluation.push_back(&row);
    }
    if (const auto found = row.find("samples"); found != row.end() && found->is_array()) {
      samples.push_back({{"step", row["step"]}, {"texts", *found}});
    }
  }
  constexpr size_t kMaxSamples = 12;  // the newest; a run may have thousands
  while (samples.size() > kMaxSamples) {
    samples.erase(0);
  }
  const std::optional<ProfileSummary> profile =
      read_profile(files, join_path(directory, kProfileFile));
  return {
      {"directory", directory},
      {"run", run_facts(files, join_path(directory, kRunFile))},
      {"config", config_of(files, config)},
      {"train",
       columns(training, {"step", "loss", "lr", "grad_norm", "tokens_per_second", "step_seconds"})},
      {"eval", columns(evaluation, {"step", "eval_loss", "eval_perplexity", "eval_bits_per_byte",
                                    "eval_accuracy", "eval_predictions"})},
      {"samples", samples},
      {"profile", profile ? to_json(*profile) : OrderedJson()}};
}

// For text inside <script>: no tag may end it.
std::string script_safe(const std::string& json) {
  std::string out;
  for (const char c : json) {
    out += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return out;
}

std::string html_safe(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string report_html(FileSystem& files, std::span<const std::string> run_directories) {
  OrderedJson runs = OrderedJson::array();
  std::string title;
  for (const std::string& directory : run_directories) {
    OrderedJson data = data_of(files, directory);
    const auto name = data["run"].find("name");
    data["name"] = name != data["run"].end() && name->is_string() ? name->get<std::string>()
                                                                  : file_name(directory);
    title += (title.empty() ? "" : ", ") + data["name"].get<std::string>();
    runs.push_back(std::move(data));
  }
  const std::string json = OrderedJson{{"runs", std::move(runs)}}.dump(
      -1, ' ', false, OrderedJson::error_handler_t::replace);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{} · mstrain</title>\n<style>{}</style>\n</head>\n<body>\n{}\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}{}</script>\n"
      "</body>\n</html>\n",
      html_safe(title), kReportStyle, kReportBody, script_safe(json), kReportProfileScript,
      kReportScript);
}

}  // namespace mstrain
