// States in fewer bits: which tensors a parameter has, and its update between reading and storing them.
#pragma once

#include "core/ops/adamw_stored.h"
#include "core/optim/loss_scale.h"
#include "core/optim/update_rules.h"

namespace mstrain {

inline constexpr std::string_view kMasterSlot = "master";
inline constexpr std::string_view kScaleSuffix = "_scale";

// A tensor that is kept for a parameter of `shape`.
struct SlotSpec {
  std::string name;
  TensorType type;
};
// The master, then each slot of the rule, followed by its scales where it is stored in blocks. All begin at zero, but for
// the master.
std::vector<SlotSpec> stored_slots(const OptimizerConfig& config, const PrecisionConfig& precision,
                                   const Shape& shape, bool is_matrix);

struct StoredStep {
  Tensor parameter;
  Tensor gradient;
  Tensors slots;  // as stored_slots says
  bool decay = false;
  int64_t site = 0;              // of the parameter's random numbers
  const Shard* shard = nullptr;  // where these are one rank's part
  std::optional<MatrixForm> matrix = {};
};

// The new parameter and slots. Scalars are f32. `apply`: bool []; `key`: u32 [2].
StoredStep stored_update(const OptimizerConfig& config, const PrecisionConfig& precision,
                         const AdamwScalars& scalars, const Tensor& apply, const Tensor& key,
                         const StoredStep& step);

}  // namespace mstrain
