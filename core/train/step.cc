#include "core/train/step.h"

#include <cmath>

#include "core/nn/random_scope.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/transform/accumulate.h"
#include "core/transform/clip.h"
#include "core/transform/grad.h"
#include "core/transform/precision.h"

namespace mstrain {
namespace {

CompileOptions options_of(const TrainConfig& config) {
  return {.level = static_cast<int>(config.fusion.level),
          .rules_off = config.fusion.off,
          .explain_fusion = config.fusion.explain,
          .loss_chunks = config.memory.chunks(),
          .packed_bytes = config.memory.packed_bytes()};
}

Context with_training(Context context, bool training) {
  context.training = training;
  return context;
}

// A micro-batch: the samples' tensors, and the number of each sample within the step.
struct MicroBatch {
  Tensors samples;
  Tensor rows;

  template <class V>
  void fields(V& v) {
    v("samples", samples);
    v("rows", rows);
  }
};

struct LossAndGradient {
  Sum loss;
  Params gradient;

  template <class V>
  void fields(V& v) {
    v("loss", loss);
    v("gradient", gradient);
  }
};

const Tensor& weight_of(const Params& params, const ParamSpec& spec) {
  const Tensor* const found = params.find(spec.name);
  check(found != nullptr && found->shape() == spec.type.shape, "weight {} is {}, expected {}",
        spec.name, found == nullptr ? "missing" : to_string(found->type()), to_string(spec.type));
  return *found;
}

// The largest power of two that is no more than 1 / count: multiplying by it rounds nothing.
double unit_for(int64_t count) {
  return std::exp2(-std::ceil(std::log2(static_cast<double>(std::max<int64_t>(count, 1)))));
}

}  // namespace

struct StepProgram::Arguments {
  TrainState state;
  Params frozen;
  Tensors batch;
  Tensor lr;           // f32 []
  Tensor key;          // u32 [2]
  Tensor step;         // i32 []
  Tensors norm_limit;  // f32 [], where steps may be skipped

  template <class V>
  void fields(V& v) {
    v("state", state);
    v("frozen", frozen);
    v("batch", batch);
    v("lr", lr);
    v("key", key);
    v("step", step);
    v("norm_limit", norm_limit);
  }
};

Params cast_params(Params params, Dtype dtype) {
  for (auto& [name, value] : params.items()) {
    value = is_floating(value.dtype()) ? cast(value, dtype) : value;
  }
  return params;
}

Params frozen_weights(const TrainTask& task) {
  if (task.frozen.empty()) {
    return {};
  }
  check(task.frozen_weights != nullptr, "the task does not say where its frozen weights are");
  return task.frozen_weights();
}

Params named_params(std::span<const ParamSpec> specs) {
  Params params;
  for (const ParamSpec& spec : specs) {
    params.set(spec.name, Tensor());
  }
  return params;
}

// Of `share` times each gradient. Their sums of squares are those that the global norm is made of.
Tensors norms_of(const Params& gradient, const Tensor& share) {
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("log.layers");
  Tensors norms;
  for (const Tensor& leaf : flatten_tree(gradient)) {
    const Tensor norm = global_norm_of(std::span(&leaf, 1));
    norms.push_back(cast(share, norm.dtype()) * norm);
  }
  return norms;
}

StepProgram::StepProgram(const TrainTask& task, const TrainConfig& config, int64_t micro,
                         const Context& context)
    : task_(task),
      context_(with_training(context, true)),
      precision_(config.precision),
      optimizer_(config.optimizer, task.parameters, config.precision),
      clip_(config.optimizer.clip_grad),
      may_skip_(config.optimizer.may_skip() || config.precision.scales_dynamically()),
      looks_at_layers_(!config.log.layers.is_word()),
      micro_batches_(config.batch.global / micro),
      unit_(unit_for(config.batch.global * task.units.count)) {
  check(micro > 0 && config.batch.global % micro == 0, "micro-batches of {} do not make up {}",
        micro, config.batch.global);
  {
    const Trace trace(Trace::Mode::kAbstract);
    const TrainState abstract = first_state(abstract_params(task.parameters));
    const Tensors leaves = flatten_tree(abstract);
    for (const Tensor& leaf : leaves) {
      state_types_.push_back(leaf.type());
    }
    form_ = with_leaves(abstract, Tensors(leaves.size()));
  }
  if (config.run.execution == Execution::kEager) {
    return;
  }
  const ContextScope scope(context_);
  Types types = state_types_;
  for (const ParamSpec& spec : task.frozen) {
    types.push_back(spec.type);
  }
  const Types batch = task.batch_types(config.batch.global);
  types.insert(types.end(), batch.begin(), batch.end());
  types.push_back({Dtype::kF32, {}});
  types.push_back({Dtype::kU32, {2}});
  types.push_back({Dtype::kI32, {}});
  if (may_skip_) {
    types.push_back({Dtype::kF32, {}});
  }
  const Arguments form{
      form_,    named_params(task.frozen), Tensors(batch.size()), Tensor(), Tensor(),
      Tensor(), Tensors(may_skip_ ? 1 : 0)};
  const GraphPtr graph = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        const StepResult result = step(with_leaves(form, leaves));
        const Tensors flat = flatten_tree(result);
        result_form_ = with_leaves(result, Tensors(flat.size()));
        return flat;
      },
      &captures_);
  CompileOptions options = options_of(config);
  options.donated.assign(state_types_.size(), true);
  options.donated.resize(types.size() + captures_.size(), false);
  program_ = compile(*graph, options);
}

TrainState StepProgram::first_state(Params params) const {
  TrainState state;
  state.optimizer = optimizer_.init(params);
  state.params = optimizer_.stored(std::move(params));
  return state;
}

Tensor StepProgram::loss_scale_of(const TrainState& state) const {
  if (state.optimizer.loss_scale) {
    return state.optimizer.loss_scale->scale;
  }
  const double scale = precision_.first_loss_scale();
  return scale == 1 ? Tensor() : full({}, scale);
}

std::pair<Tensor, Tensor> StepProgram::clipping(const Params& gradient, const Tensor& share) const {
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("optimizer.clip_grad");
  const Tensor sum = global_norm(gradient);
  const Tensor norm = cast(share, sum.dtype()) * sum;
  return {norm, clip_ ? share * cast(clip_factor(norm, *clip_), share.dtype()) : share};
}

StepResult StepProgram::step(const Arguments& arguments) const {
  const auto& [state, frozen, batch, lr, key, number, norm_limit] = arguments;
  const Tensor step_key = fold_in(key, number);
  const Tensor loss_scale = loss_scale_of(state);
  const bool own_type = micro_batches_ == 1 || precision_.grads == precision_.params;
  const auto part_of = [&](const MicroBatch& micro) -> std::optional<SamplePart> {
    if (micro_batches_ == 1) {
      return std::nullopt;
    }
    return SamplePart{select(micro.rows, 0, 0), micro.rows.dim(0), batch.at(0).dim(0)};
  };
  const auto one = [&](const MicroBatch& micro) {
    const RandomScope random(step_key, part_of(micro));
    const auto loss_of = in_precision(
        precision_.param_dtype(), [&](const Params& trained, const Params& others) -> Sum {
          return task_.sums(joined(trained, others), micro.samples).loss;
        });
    // The sum is differentiated in units that keep gradients of 16 bits as far from the ends of their range as those of the
    // mean are.
    auto [result, gradient] = value_and_grad([&](const Params& params) {
      const Sum loss = loss_of(params, frozen);
      const Tensor scaled = loss.sum * unit_;
      return std::pair(loss_scale.defined() ? scaled * loss_scale : scaled, loss);
    })(state.params);
    return LossAndGradient{result.second, own_type ? gradient : cast_params(gradient, Dtype::kF32)};
  };
  const MicroBatch all{batch, iota({batch.at(0).dim(0)}, 0)};
  const LossAndGradient sum =
      micro_batches_ == 1 ? one(all) : accumulate(micro_batches_, one, own_type)(all);

  const Tensor count = cast(sum.loss.count, sum.loss.sum.dtype());
  const Tensor divisor = where(equal(count, 0), 1, count);
  const Tensor loss = sum.loss.sum / divisor;
  Tensor share = 1 / (unit_ * divisor);
  share = loss_scale.defined() ? share / loss_scale : share;
  const auto [norm, scale] = clipping(sum.gradient, share);
  const Tensors layer_norms = looks_at_layers_ ? norms_of(sum.gradient, share) : Tensors();
  const double largest = std::numeric_limits<float>::max();
  UpdateControl control{.apply = {}, .key = step_key};
  if (may_skip_) {
    control.apply = logical_and(norm <= cast(norm_limit[0], norm.dtype()), abs(loss) <= largest);
  }
  TrainState next;
  std::tie(next.params, next.optimizer) =
      optimizer_.update(state.params, sum.gradient, state.optimizer, lr, scale, control);
  if (const auto& scaling = state.optimizer.loss_scale) {
    const Tensor finite = logical_and(norm <= largest, abs(loss) <= largest);
    next.optimizer.loss_scale = next_loss_scale(precision_, *scaling, finite);
    return {std::move(next), loss, norm, {loss_scale}, layer_norms};
  }
  return {std::move(next), loss, norm, {}, layer_norms};
}

StepResult StepProgram::run(TrainState state, Tensors batch, const StepNumbers& numbers,
                            const Params& frozen) const {
  const ContextScope scope(context_);
  Tensors scalars{scalar(numbers.lr), rng_key(numbers.seed),
                  scalar(static_cast<double>(numbers.step), Dtype::kI32)};
  Tensors norm_limit;
  if (may_skip_) {
    norm_limit.push_back(scalar(static_cast<double>(numbers.norm_limit)));
  }
  if (program_ == nullptr) {
    return step({std::move(state), frozen, std::move(batch), scalars[0], scalars[1], scalars[2],
                 std::move(norm_limit)});
  }
  Tensors inputs;
  LeafVisitor take(LeafVisitor::Access::kWrite,
                   [&](const std::string&, Tensor& leaf) { inputs.push_back(std::move(leaf)); });
  take("", state);
  for (const ParamSpec& spec : task_.frozen) {
    inputs.push_back(weight_of(frozen, spec));
  }
  inputs.insert(inputs.end(), batch.begin(), batch.end());
  inputs.insert(inputs.end(), scalars.begin(), scalars.end());
  inputs.insert(inputs.end(), norm_limit.begin(), norm_limit.end());
  inputs.insert(inputs.end(), captures_.begin(), captures_.end());
  return with_leaves(result_form_, program_->run(std::move(inputs)));
}

void StepProgram::profile(std::vector<KernelTime>* times) const {
  if (program_ != nullptr) {
    program_->profile(times);
  }
}

LossProgram::LossProgram(const TrainTask& task, const TrainConfig& config, int64_t rows,
                         const Context& context)
    : task_(task),
      context_(with_training(context, false)),
      dtype_(config.precision.param_dtype()),
      weights_(task.parameters) {
  if (dtype_ != Dtype::kF32) {
    for (ParamSpec& spec : weights_) {
      spec.type.dtype = dtype_;
    }
  }
  weights_.insert(weights_.end(), task.frozen.begin(), task.frozen.end());
  if (config.run.execution == Execution::kEager) {
    return;
  }
  const ContextScope scope(context_);
  const Params form = named_params(weights_);
  Types types;
  for (const ParamSpec& spec : weights_) {
    types.push_back(spec.type);
  }
  const Types batch = task.batch_types(rows);
  types.insert(types.end(), batch.begin(), batch.end());
  const GraphPtr graph = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        return evaluate(with_leaves(form, leaves.first(weights_.size())),
                        leaves.subspan(weights_.size()));
      },
      &captures_);
  program_ = compile(*graph, options_of(config));
}

Tensors LossProgram::evaluate(const Params& params, std::span<const Tensor> batch) const {
  return in_precision(dtype_, [&](const Params& p) -> Tensors {
    const TaskSums sums = task_.sums(p, batch);
    check(sums.metrics.size() == task_.metrics.size(), "the task names {} metrics and gives {}",
          task_.metrics.size(), sums.metrics.size());
    return flatten_tree(sums);
  })(params);
}

std::vector<LossProgram::Value> LossProgram::run(const Params& params, Tensors batch) const {
  const ContextScope scope(context_);
  Params weights;
  for (const ParamSpec& spec : weights_) {
    weights.set(spec.name, cast(weight_of(params, spec), spec.type.dtype));
  }
  Tensors result;
  if (program_ == nullptr) {
    result = evaluate(weights, batch);
  } else {
    Tensors inputs = flatten_tree(weights);
    inputs.insert(inputs.end(), batch.begin(), batch.end());
    inputs.insert(inputs.end(), captures_.begin(), captures_.end());
    result = program_->run(std::move(inputs));
  }
  std::vector<Value> values;
  for (size_t i = 0; i < result.size(); i += 2) {
    values.push_back({item(result[i]), item(result[i + 1])});
  }
  return values;
}

}  // namespace mstrain
