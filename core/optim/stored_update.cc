#include "core/optim/stored_update.h"

#include <algorithm>

#include "core/ops/block_code.h"
#include "core/ops/elementwise.h"

namespace mstrain {
namespace {

// Second moments and sums of squares; velocities and first moments have signs.
bool is_signed_slot(std::string_view slot) {
  constexpr std::string_view kSquares[] = {"exp_avg_sq", "square_avg", "sum"};
  return std::find(std::begin(kSquares), std::end(kSquares), slot) == std::end(kSquares);
}

Dtype moment_dtype(const PrecisionConfig& precision) {
  return precision.moments == MomentType::kFp32   ? Dtype::kF32
         : precision.moments == MomentType::kBf16 ? Dtype::kBF16
                                                  : Dtype::kU8;
}

// The slots of the rule, apart from the master.
std::vector<StoredTensorState> rule_slots(const PrecisionConfig& precision, const Tensors& slots) {
  const bool blocks = precision.moments == MomentType::kInt8;
  std::vector<StoredTensorState> result;
  for (size_t i = precision.has_master() ? 1 : 0; i < slots.size(); i += blocks ? 2 : 1) {
    result.push_back({slots[i], blocks ? slots[i + 1] : Tensor()});
  }
  return result;
}

StoredStep assembled(const PrecisionConfig& precision, const Tensor& value, const Tensor& copy,
                     std::span<const StoredTensorState> slots) {
  StoredStep result;
  result.parameter = copy.defined() ? copy : value;
  if (precision.has_master()) {
    result.slots.push_back(value);
  }
  for (const StoredTensorState& slot : slots) {
    result.slots.push_back(slot.values);
    if (slot.scales.defined()) {
      result.slots.push_back(slot.scales);
    }
  }
  return result;
}

}  // namespace

std::vector<SlotSpec> stored_slots(const OptimizerConfig& config, const PrecisionConfig& precision,
                                   const Shape& shape, bool is_matrix) {
  std::vector<SlotSpec> slots;
  if (precision.has_master()) {
    slots.push_back({std::string(kMasterSlot), {Dtype::kF32, shape}});
  }
  for (const std::string_view name : slots_of(config, is_matrix)) {
    slots.push_back({std::string(name), {moment_dtype(precision), shape}});
    if (precision.moments == MomentType::kInt8) {
      slots.push_back({fmt::format("{}{}", name, kScaleSuffix),
                       {Dtype::kF32, {code_blocks(shape.elements())}}});
    }
  }
  return slots;
}

StoredStep stored_update(const OptimizerConfig& config, const PrecisionConfig& precision,
                         const AdamwScalars& scalars, const Tensor& apply, const Tensor& step_key,
                         const StoredStep& step) {
  const Tensor key = step.shard == nullptr ? step_key : key_of_part(step_key, *step.shard);
  const Tensor value = precision.has_master() ? step.slots[0] : step.parameter;
  const Dtype copy_dtype = precision.has_master() ? precision.param_dtype() : Dtype::kF32;
  const std::vector<StoredTensorState> slots = rule_slots(precision, step.slots);
  const bool decays = step.decay && config.weight_decay > 0;

  if (steps_as_adamw(config, step.matrix.has_value()) ||
      (config.type == OptimizerType::kAdam && !decays)) {
    const AdamwStoredOptions options{
        .rule = {config.betas[0], config.betas[1], config.eps, decays ? config.weight_decay : 0},
        .copy = copy_dtype,
        .apply = apply,
        .key = key,
        .site = step.site};
    const AdamwStoredResult next =
        adamw_stored_update({value, slots[0], slots[1]}, step.gradient, scalars, options);
    return assembled(precision, next.state.value, next.copy,
                     std::array{next.state.m, next.state.v});
  }

  const std::vector<std::string_view> names = slots_of(config, step.matrix.has_value());
  ParameterStep wide{cast(value, Dtype::kF32),
                     cast(step.gradient, Dtype::kF32),
                     {},
                     step.decay,
                     step.shard,
                     step.matrix};
  for (size_t i = 0; i < slots.size(); ++i) {
    wide.slots.push_back(load(slots[i], is_signed_slot(names[i])));
  }
  if (precision.moments == MomentType::kInt8 && names.front() == "exp_avg") {
    wide.slots[0] =
        limited_first_moment(wide.slots[0], wide.slots[1], config.betas[0], config.betas[1]);
  }
  const ParameterStep next = apply_rule(config, scalars, wide);
  std::vector<StoredTensorState> stored;
  for (size_t i = 0; i < slots.size(); ++i) {
    stored.push_back(store(next.slots[i], slots[i], apply, key,
                           step.site + 1 + static_cast<int64_t>(i), is_signed_slot(names[i])));
  }
  const Tensor new_value = store(next.parameter, {value, {}}, apply, key, step.site, true).values;
  return assembled(precision, new_value,
                   copy_dtype == Dtype::kF32 ? Tensor() : cast(new_value, copy_dtype), stored);
}

}  // namespace mstrain
