#include "core/train/layer_log.h"

#include <cmath>
#include <numeric>

#include "core/tensor/host.h"

namespace mstrain {

LayerLog::LayerLog(const RunDirectory& directory, const TrainConfig& config, MetricsLog& log,
                   int64_t kept)
    : config_(config),
      log_(log),
      file_(directory.files(), directory.at(kLayersFile), MetricsKept(kept)),
      seen_(kept) {}

void LayerLog::on_step(Trainer&, const StepMetrics& metrics) { gradients_ = metrics.layer_norms; }

bool LayerLog::wants(int64_t step, Moment moment) {
  return moment != Moment::kInterrupted && step > seen_ && step % *config_.log.layers.value == 0;
}

void LayerLog::on_state(Trainer& trainer, Moment) {
  seen_ = trainer.step();
  const double now = wall_clock();
  OrderedJson row{{"step", seen_},
                  {"names", OrderedJson::array()},
                  {"weight", OrderedJson::array()},
                  {"gradient", gradients_}};
  const Params params = trainer.params();
  for (size_t i = 0; i < gradients_.size(); ++i) {  // the trained ones come first
    const std::string& name = params.name(i);
    const std::vector<double> values = to_doubles(params.tensor(i));
    const double norm =
        std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
    row["names"].push_back(name);
    row["weight"].push_back(norm);
    EventsWriter& events = log_.events();
    events.scalar("weight_norm/" + name, norm, seen_, now);
    events.scalar("gradient_norm/" + name, gradients_.at(i), seen_, now);
    events.histogram("weights/" + name, std::vector<float>(values.begin(), values.end()), seen_,
                     now);
  }
  file_.write(row);
}

}  // namespace mstrain
