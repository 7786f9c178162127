#include "core/train/gradient_program.h"

#include <cmath>

#include "core/nn/follow_scope.h"
#include "core/nn/random_scope.h"
#include "core/ops/build.h"
#include "core/ops/control.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/optim/float8_magnitudes.h"
#include "core/transform/float8.h"
#include "core/transform/grad.h"
#include "core/transform/precision.h"

namespace mstrain {
namespace {

// The largest power of two that is no more than 1 / count: multiplying by it rounds nothing.
double unit_for(int64_t count) {
  return std::exp2(-std::ceil(std::log2(static_cast<double>(std::max<int64_t>(count, 1)))));
}

// Each as it is without what is done with it: a product that ran on from the sum so far would not have the bits that another
// rank adds to it.
Tensor apart(const Tensor& value) { return barrier(std::span(&value, 1))[0]; }

Params apart(Params gradient) {
  for (auto& [name, value] : gradient.items()) {
    value = apart(value);
  }
  return gradient;
}

std::vector<size_t> weights_in_float8(const TrainTask& task) {
  std::vector<ParamSpec> weights = task.parameters;
  weights.insert(weights.end(), task.frozen.begin(), task.frozen.end());
  return float8_weights(weights);
}

}  // namespace

Params named_params(std::span<const ParamSpec> specs) {
  Params params;
  for (const ParamSpec& spec : specs) {
    params.set(spec.name, Tensor());
  }
  return params;
}

CompileOptions options_of(const TrainConfig& config) {
  return {.level = static_cast<int>(config.fusion.level),
          .rules_off = config.fusion.off,
          .explain_fusion = config.fusion.explain,
          .loss_chunks = config.memory.chunks(),
          .packed_bytes = config.memory.packed_bytes(),
          .offloaded_bytes = config.memory.offload.activation_bytes()};
}

Context with_training(Context context, bool training) {
  context.training = training;
  return context;
}

const Tensor& weight_of(const Params& params, const std::string& name, const TensorType& type) {
  const Tensor* const found = params.find(name);
  check(found != nullptr && found->shape() == type.shape, "weight {} is {}, expected {}", name,
        found == nullptr ? "missing" : to_string(found->type()), to_string(type));
  return *found;
}

Params cast_params(Params params, Dtype dtype) {
  for (auto& [name, value] : params.items()) {
    value = is_floating(value.dtype()) ? cast(value, dtype) : value;
  }
  return params;
}

GradientProgram::GradientProgram(const TrainTask& task, const TrainConfig& config, int64_t micro,
                                 const TensorParts& parts)
    : task_(task),
      parts_(parts),
      precision_(config.precision),
      float8_(precision_.has_float8() ? weights_in_float8(task) : std::vector<size_t>()),
      rows_(config.batch.global),
      is_part_(micro < rows_),
      unit_(unit_for(rows_ * task.units.count)) {
  Types types;
  for (const ParamSpec& spec : task.parameters) {
    types.push_back(spec.type);
    if (precision_.params != FloatType::kFp32) {
      types.back().dtype = precision_.param_dtype();
    }
  }
  for (const ParamSpec& spec : task.frozen) {
    types.push_back(spec.type);
  }
  const Types batch = task.batch_types(micro);
  batch_ = batch.size() + 1;
  if (config.run.execution == Execution::kEager) {
    return;
  }
  types.insert(types.end(), batch.begin(), batch.end());
  types.push_back({Dtype::kI32, {micro}});
  types.push_back({Dtype::kU32, {2}});
  const bool is_scaled = precision_.scales_dynamically() || precision_.first_loss_scale() != 1;
  if (is_scaled) {
    types.push_back({Dtype::kF32, {}});
  }
  if (!float8_.empty()) {
    types.push_back({Dtype::kF32, {static_cast<int64_t>(float8_.size()), 3}});
  }
  graph_ = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        const size_t trained = task.parameters.size();
        const auto samples = leaves.subspan(weights(), batch_ - 1);
        const auto rest = leaves.subspan(weights() + batch_ - 1);
        return flatten_tree(traced(
            {with_leaves(named_params(task.parameters), leaves.first(trained)),
             with_leaves(named_params(task.frozen), leaves.subspan(trained, task.frozen.size())),
             rest[1], is_scaled ? rest[2] : Tensor(),
             float8_.empty() ? Tensor() : rest[is_scaled ? 3 : 2]},
            {{samples.begin(), samples.end()}, rest[0]}));
      },
      &captures_);
  graph_ = parts.divided(graph_, {weights(), batch.size(), micro}, sums());
}

LossAndGradient GradientProgram::traced(const GradientState& state, const MicroBatch& micro) const {
  const RandomScope random(
      state.step_key,
      is_part_ ? std::optional(SamplePart{select(micro.rows, 0, 0), micro.rows.dim(0), rows_})
               : std::nullopt);
  Tensors rows;
  for (const size_t place : task_.looked_up) {
    rows.push_back(micro.samples.at(place));
  }
  Tensors expected;
  for (size_t i = 0; i < 3 * float8_.size(); ++i) {
    expected.push_back(select(flatten(state.magnitudes), 0, static_cast<int64_t>(i)));
  }
  auto [result, gradients] = value_and_grad<0, 1, 2>(
      [&](const Params& params, const Tensors& looked, const Tensors& magnitudes) {
        Tensors samples = micro.samples;
        for (size_t i = 0; i < looked.size(); ++i) {
          samples[task_.looked_up[i]] = looked[i];
        }
        const auto sums_of = in_precision(
            precision_.param_dtype(),
            [&](const Params& trained, const Params& others) -> std::pair<TaskSums, Tensors> {
              const FollowScope follows;
              TaskSums found = task_.sums(joined(trained, others), samples);
              found.metrics.resize(metrics());
              found.scores.clear();
              const Tensors pulls = follows.pulls(found.loss.count);
              return {std::move(found), pulls};
            });
        const auto [found, pulls] =
            float8_.empty() ? sums_of(params, state.frozen)
                            : in_float8(sums_of, {float8_, magnitudes, precision_.fp8_margin})(
                                  params, state.frozen);
        Tensor differentiated = found.loss.sum * unit_;
        if (state.loss_scale.defined()) {
          differentiated = differentiated * state.loss_scale;
        }
        for (const Tensor& pull : pulls) {
          differentiated = differentiated + cast(pull * unit_, differentiated.dtype());
        }
        return std::pair(differentiated, found);
      })(state.params, rows, expected);
  const TaskSums& found = result.second;
  auto& [gradient, looked_up, magnitudes] = gradients;
  if (!is_part_) {
    return {found.loss, found.metrics, gradient, looked_up, magnitudes};
  }
  gradient = apart(std::move(gradient));
  for (Tensor& value : looked_up) {
    value = apart(value);
  }
  return {found.loss, found.metrics,
          sums_in_own_type() ? gradient : cast_params(gradient, Dtype::kF32), looked_up,
          magnitudes};
}

Tensors GradientProgram::inputs(const GradientState& state, const MicroBatch& micro) const {
  Tensors all;
  const auto add = [&](const Params& params, std::span<const ParamSpec> specs) {
    for (const ParamSpec& spec : specs) {
      const Tensor* const found = params.find(spec.name);
      all.push_back(found == nullptr ? Tensor() : *found);
    }
  };
  add(state.params, task_.parameters);
  add(state.frozen, task_.frozen);
  const Tensors samples = parts_.own_positions(micro.samples);
  all.insert(all.end(), samples.begin(), samples.end());
  all.insert(all.end(), {micro.rows, state.step_key});
  if (state.loss_scale.defined()) {
    all.push_back(state.loss_scale);
  }
  if (state.magnitudes.defined()) {
    all.push_back(state.magnitudes);
  }
  all.insert(all.end(), captures_.begin(), captures_.end());
  return all;
}

LossAndGradient GradientProgram::result(Tensors outputs) const {
  const LossAndGradient form{{},
                             std::vector<Sum>(metrics()),
                             named_params(task_.parameters),
                             Tensors(task_.looked_up.size()),
                             Tensors(3 * float8_.size())};
  return with_leaves(form, outputs);
}

LossAndGradient GradientProgram::operator()(const GradientState& state,
                                            const MicroBatch& micro) const {
  LossAndGradient found =
      graph_ == nullptr ? traced(state, micro) : result(replay(*graph_, inputs(state, micro)));
  if (!float8_.empty()) {
    found.magnitudes = {magnitudes_of(std::move(found.magnitudes))};
  }
  return found;
}

}  // namespace mstrain
