// Ends a run whose evaluations get no better, and puts back its best weights.
//
// Each evaluation is an improvement where it is better than the best one before by more than min_delta, and than the
// baseline where there is one. The run stops at an evaluation that is none when it is the patience-th in a row, and at one that
// is as good as the target.
#pragma once

#include "core/train/callback_sections.h"
#include "core/train/saver.h"

namespace mstrain {

class EarlyStopping final : public Callback {
 public:
  // All arguments must outlive it.
  EarlyStopping(const EarlyStoppingConfig& config, Saver& saver);

  void on_start(Trainer& trainer) override;
  void on_evaluation(Trainer& trainer, const EvaluationRow& row) override;
  bool wants(int64_t step, Moment moment) override;
  void on_state(Trainer& trainer, Moment moment) override;

  std::string name() const override { return kName; }
  Json state() const override;
  void restore(const Json& state) override;

  std::optional<double> best() const { return best_; }
  int64_t best_step() const { return best_step_; }
  // The step whose weights the run ended with, where that is not its last one.
  std::optional<int64_t> restored() const { return restored_; }

  // The key that a run whose checkpoint holds `callbacks` was ended by and, with `config`, does not go on for; none: it does.
  static std::optional<std::string> ended_by(const EarlyStoppingConfig& config,
                                             const Json& callbacks);

 private:
  static constexpr const char* kName = "early_stopping";

  bool has_enough() const;
  bool is_over() const { return has_enough() || (waited_ > 0 && waited_ >= config_.patience); }
  std::string reason() const;

  const EarlyStoppingConfig& config_;
  Saver& saver_;
  Monitor monitor_;
  std::optional<double> best_;
  int64_t best_step_ = 0;
  int64_t waited_ = 0;
  bool ended_ = false;
  std::optional<int64_t> restored_;
};

}  // namespace mstrain
