// Lowers the learning rate when evaluations get no better: schedule.reduce_on_plateau.
//
// The rate of a step is the schedule's times factor^reductions, but no reduction brings it below min_lr. A reduction
// comes at the patience-th evaluation in a row without improvement; `cooldown` evaluations after it are not counted.
#pragma once

#include "core/train/callback_sections.h"
#include "core/train/trainer.h"

namespace mstrain {

class ReduceOnPlateau final : public Callback {
 public:
  // `config` must outlive it.
  explicit ReduceOnPlateau(const ReduceOnPlateauConfig& config);

  void on_start(Trainer& trainer) override;
  void on_evaluation(Trainer& trainer, const EvaluationRow& row) override;

  std::string name() const override { return kName; }
  Json state() const override;
  void restore(const Json& state) override;

 private:
  static constexpr const char* kName = "reduce_on_plateau";

  const ReduceOnPlateauConfig& config_;
  Monitor monitor_;
  std::optional<double> best_;
  int64_t waited_ = 0;
  int64_t cooling_ = 0;  // evaluations left
  double factor_ = 1;
};

}  // namespace mstrain
