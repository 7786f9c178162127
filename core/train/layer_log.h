// Looks at every parameter from time to time: log.layers.
#pragma once

#include "core/train/metrics_log.h"

namespace mstrain {

inline constexpr const char* kLayersFile = "layers.jsonl";

// A row of layers.jsonl after every `log.layers` steps: {"step", "names", "weight": [norms], "gradient": [norms]}; the same for
// TensorBoard, with a histogram of each parameter's weights. Gradients are those that led to the weights, before clipping.
class LayerLog final : public Callback {
 public:
  // Rows after step `kept` are cut off. All arguments must outlive it.
  LayerLog(const RunDirectory& directory, const TrainConfig& config, MetricsLog& log, int64_t kept);

  void on_step(Trainer& trainer, const StepMetrics& metrics) override;
  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;

 private:
  const TrainConfig& config_;
  MetricsLog& log_;
  MetricsFile file_;
  std::vector<double> gradients_;
  int64_t seen_ = 0;
};

}  // namespace mstrain
