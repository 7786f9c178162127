// What an evaluation shows people beside its returns: its first episode in pictures, which actions were taken, and what came of what
// the player took them to be worth.
#pragma once

#include <optional>
#include <vector>

#include "core/base/json.h"
#include "suites/reinforcement/run/look.h"
#include "suites/reinforcement/train/evaluation.h"

namespace mstrain::reinforcement {

class EvaluationLook final : public Spectator {
 public:
  // `discount`: of the values; none: they cannot be compared with rewards.
  explicit EvaluationLook(std::optional<double> discount) : discount_(discount) {}

  void begin(const EnvGroup& group) override;
  void step(const EnvGroup& group, std::span<const float> actions, std::span<const float> values,
            std::span<const uint8_t> over) override;

  // Of some kilobytes, however long the episodes were:
  //   strip, at: of some moments of the first episode;
  //   actions: counts [bins] of a discrete space, each bin `each` actions; of a box counts [numbers][bins] from low to high;
  //   values: of steps and the discounted rewards that followed. A truncated episode is followed by the value of its last step, which
  //   is none of the steps.
  // `actions` and `values` are missing where there were none.
  OrderedJson row() const;

 private:
  struct Valued {
    float value, reward;
  };
  void look(const EnvGroup& group);
  OrderedJson counted_actions() const;
  OrderedJson compared_values() const;

  std::optional<double> discount_;
  Space space_;
  std::vector<Moment> frames_;  // every stride_-th
  int64_t stride_ = 1, seen_ = 0;
  std::vector<float> actions_;               // [steps, d]
  std::vector<std::vector<Valued>> of_row_;  // by time
  std::vector<uint8_t> terminated_;          // [r]
  size_t valued_ = 0;
};

}  // namespace mstrain::reinforcement
