// metrics.jsonl: what a run measured, one JSON object a line, in the order of steps.
// Training rows have step, loss, lr, grad_norm, tokens_per_second (images_per_second and so on, by the task's unit), step_seconds,
// busy_processors, resident_bytes and time (seconds since 1970);
// with what callbacks noted (Trainer::note); with the task's metrics of that step, as accuracy and margin, where it measures steps;
// with skipped_steps where steps may be skipped; evaluation rows have step, eval_loss and what else is measured
// (kMetricKinds), eval_predictions (over how many they are means), the same for each set of held-out data with a name
// (eval_loss/web), eval_seconds, time and perhaps samples. Samples between evaluations are rows of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain {

inline constexpr const char* kMetricsFile = "metrics.jsonl";
// Of training rows: the mean number of processors at work since the row before, and what the process holds in memory.
inline constexpr const char* kBusyProcessors = "busy_processors";
inline constexpr const char* kResidentBytes = "resident_bytes";
// Of training rows: of what the task counts, how many a second. "tokens_per_second"
inline std::string per_second(const std::string& unit) { return unit + "s_per_second"; }
inline constexpr const char* kPredictions = "eval_predictions";
inline constexpr const char* kEvalReturn = "eval_return";  // of agents

// The rows of `path`, none where it is missing. What is no object with an integer `step` is left out: a killed run may
// leave half a line.
std::vector<Json> read_metrics(FileSystem& files, const std::string& path);

// Whether it is one of an evaluation that measured the held-out data `set`, "" for all of them.
bool is_evaluation(const Json& row, std::string_view set = "");

// The last steps of which rows are kept, by kind.
struct MetricsKept {
  int64_t training, evaluation, samples;
  MetricsKept(int64_t step) : training(step), evaluation(step), samples(step) {}  // NOLINT: of all
  MetricsKept(int64_t training_step, int64_t evaluation_step, int64_t samples_step)
      : training(training_step), evaluation(evaluation_step), samples(samples_step) {}

  bool has(const Json& row) const;
};

class MetricsFile {
 public:
  // Cuts `path` back to what is `kept`, then appends. Throws IoError, as all methods do.
  MetricsFile(FileSystem& files, const std::string& path, const MetricsKept& kept);

  // Appends one line in one piece.
  void write(const OrderedJson& row);

 private:
  std::unique_ptr<WritableFile> file_;
};

}  // namespace mstrain
