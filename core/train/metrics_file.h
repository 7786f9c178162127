// metrics.jsonl: what a run measured, one JSON object a line, in the order of steps.
// Training rows have step, loss, lr, grad_norm, tokens_per_second, step_seconds and time (seconds since 1970);
// evaluation rows have step, eval_loss, eval_seconds, time and perhaps samples.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain {

inline constexpr const char* kMetricsFile = "metrics.jsonl";

// The rows of `path`, none where it is missing. What is no object with an integer `step` is left out: a killed run may
// leave half a line.
std::vector<Json> read_metrics(FileSystem& files, const std::string& path);

class MetricsFile {
 public:
  // Cuts `path` back to rows of `last_step` and before, then appends. Throws IoError, as all methods do.
  MetricsFile(FileSystem& files, std::string path, int64_t last_step);

  // Appends one line in one piece.
  void write(const OrderedJson& row);
  void sync();

 private:
  std::unique_ptr<WritableFile> file_;
};

}  // namespace mstrain
