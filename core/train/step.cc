#include "core/train/step.h"

#include "core/ir/backend.h"
#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/offload.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/train/held_bytes.h"
#include "core/transform/clip.h"
#include "core/transform/precision.h"

namespace mstrain {
namespace {

Context context_of_step(const TrainTask& task, const Context& context) {
  Context out = with_training(context, true);
  out.batch_invariant = task.batch_invariant;
  return out;
}

}  // namespace

Params frozen_weights(const TrainTask& task) {
  if (task.frozen.empty()) {
    return {};
  }
  check(task.frozen_weights != nullptr, "the task does not say where its frozen weights are");
  return task.frozen_weights();
}

// Of each gradient's mean, by the sums of squares that the global norm is made of.
Tensors norms_of(const TrainTask& task, const Tensors& squares, const Tensor& share,
                 const Tensor& mean_scale) {
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("log.layers");
  Tensors norms;
  for (size_t i = 0; i < squares.size(); ++i) {
    const Tensor norm = norm_of_squares(std::span(&squares[i], 1));
    norms.push_back(cast(task.parameters[i].follows ? mean_scale : share, norm.dtype()) * norm);
  }
  return norms;
}

void StepProgram::check_float8() const {
  if (!precision_.has_float8()) {
    return;
  }
  const Backend* const backend = context_.backend;
  if (backend->rates && backend->rates->flops[static_cast<size_t>(Dtype::kU8)] == 0) {
    throw PlanError(
        fmt::format("precision.products: by its description (peak_tflops.fp8) {} makes no products "
                    "of 8-bit floats; say params",
                    backend->device));
  }
  if (gradient_.float8_weights().empty()) {
    throw ConfigError(
        "precision.products: the model has no layers whose weights' sizes are multiples of 16; say "
        "params");
  }
}

StepProgram::StepProgram(const TrainTask& task, const TrainConfig& config, int64_t micro,
                         const Context& context, int64_t stage)
    : task_(task),
      context_(context_of_step(task, context)),
      precision_(config.precision),
      parts_(task, config, context),
      optimizer_(config.optimizer, parts_.held(), config.precision),
      clip_(config.optimizer.clip_grad),
      may_skip_(config.optimizer.may_skip() || config.precision.scales_dynamically()),
      looks_at_layers_(!config.log.layers.is_word()),
      slots_on_host_(config.memory.offload.optimizer != Offload::kNone),
      data_{std::string(kDataAxis), data_ranks(config.parallel, context)},
      stages_{std::string(kPipelineAxis), pipeline_ranks(config.parallel, context)},
      stage_(context.ranks == nullptr ? stage : context.ranks->coordinate(kPipelineAxis)),
      zero_(data_.size == 1 ? 0 : config.parallel.zero.stage),
      regathers_(config.parallel.zero.regather != Regather::kNever),
      in_order_(config.parallel.reduction == ReductionOrder::kExact),
      overlap_(config.parallel.overlap),
      bundle_bytes_(config.parallel.bucket_mb * 1e6),
      cut_(cut_parameters(parts_.held(), config.parallel, data_)),
      shards_(zero_ == 0 ? Shards() : cut_),
      frozen_shards_(zero_ == 3 ? cut_parameters(parts_.held_frozen(), config.parallel, data_)
                                : Shards()),
      micro_batches_(config.batch.global / micro),
      copies_(config.parallel.copies),
      length_parts_(mstrain::length_parts(task, config, micro, data_.size)),
      gradient_([&] {
        const ContextScope scope(context_);
        return GradientProgram(length_parts_.empty() ? task : length_parts_.back().task, config,
                               micro, parts_);
      }()) {
  check(micro > 0 && config.batch.global % (micro * copies_ * data_.size) == 0,
        "micro-batches of {}, {} at a time on {} ranks, do not make up {}", micro, copies_,
        data_.size, config.batch.global);
  check(task.looked_up.empty() || (stages_.size == 1 && parts_.ranks() == 1),
        "rows of tables are looked up by ranks along data alone");
  for (const ParamSpec& spec : task.parameters) {
    check(!spec.follows || stages_.size == 1,
          "{} is a running statistic: a pipeline has no way from its stage to the loss", spec.name);
  }
  check(
      length_parts_.empty() || (stages_.size == 1 && parts_.ranks() == 1 && task.looked_up.empty()),
      "parts of a batch are of unlike lengths on ranks along data alone");
  for (size_t i = 0; i + 1 < length_parts_.size(); ++i) {
    const ContextScope scope(context_);
    shorter_.emplace_back(length_parts_[i].task, config, micro, parts_);
  }
  check_float8();
  frozen_types_ = types_in_parts(parts_.held_frozen(), frozen_shards_);
  if (stages_.size > 1) {
    make_pipeline(config, options_of(config));
  }
  {
    const Trace trace(Trace::Mode::kAbstract);
    const Params params = abstract_params(task.parameters);
    const Params local = parts_.cut(params);
    const OptimizerState slots = optimizer_.init(in_parts(local, shards_));
    param_types_ = types_of(flatten_tree(
        optimizer_.stored(has_parts_of_parameters() ? in_parts(local, shards_) : local)));
    for (const auto& [name, values] : slots.slots) {
      slot_types_.emplace_back();
      for (const ParamSpec& spec : task.parameters) {
        const Tensor* const value = values.find(spec.name);
        slot_types_.back().push_back(value == nullptr ? std::nullopt
                                                      : std::optional(value->type()));
      }
    }
    const TrainState abstract = first_state(params);
    const Tensors leaves = flatten_tree(abstract);
    state_types_ = types_of(leaves);
    form_ = with_leaves(abstract, Tensors(leaves.size()));
  }
  if (config.run.execution == Execution::kEager) {
    return;
  }
  const ContextScope scope(context_);
  Types types = state_types_;
  Arguments form{.state = form_, .norm_limit = Tensors(may_skip_ ? 1 : 0)};
  if (pipeline_ == nullptr) {
    const Types batch = task.batch_types(config.batch.global / data_.size);
    types.insert(types.end(), frozen_types_.begin(), frozen_types_.end());
    types.insert(types.end(), batch.begin(), batch.end());
    form.frozen = named_params(task.frozen);
    form.batch = Tensors(batch.size());
  }
  types.push_back({Dtype::kF32, {}});
  types.push_back({Dtype::kU32, {2}});
  types.push_back({Dtype::kI32, {}});
  if (may_skip_) {
    types.push_back({Dtype::kF32, {}});
  }
  const size_t arguments = types.size();
  if (pipeline_ != nullptr) {
    for (const Pipeline::Group& group : pipeline_->groups()) {
      types.insert(types.end(), group.sums.begin(), group.sums.end());
    }
    form.sums = Tensors(types.size() - arguments);
  }
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
  options.donated.resize(arguments, false);
  options.donated.resize(types.size(), true);
  options.donated.resize(types.size() + captures_.size(), false);
  program_ = compile(*graph, options);
}

int64_t StepProgram::units() const {
  int64_t units = length_parts_.empty() ? gradient_.rows() * task_.units.count : 0;
  for (const LengthPart& part : length_parts_) {
    units += part.samples * part.units;
  }
  return units;
}

Tensor StepProgram::loss_scale_of(const TrainState& state) const {
  if (state.optimizer.loss_scale) {
    return state.optimizer.loss_scale->scale;
  }
  const double scale = precision_.first_loss_scale();
  return scale == 1 ? Tensor() : full({}, scale);
}

// Of all parameters but running statistics.
Tensors StepProgram::learned(const Tensors& of_parameters) const {
  Tensors out;
  for (size_t i = 0; i < of_parameters.size(); ++i) {
    if (!task_.parameters[i].follows) {
      out.push_back(of_parameters[i]);
    }
  }
  return out;
}

std::pair<Tensor, Tensor> StepProgram::clipping(const Tensors& squares, const Tensor& share) const {
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("optimizer.clip_grad");
  const Tensor sum = norm_of_squares(learned(squares));
  Tensor norm = cast(share, sum.dtype()) * sum;
  if (precision_.params == FloatType::kFp16) {
    // A statistic that fp16 cannot hold would be infinite from then on.
    for (size_t i = 0; i < squares.size(); ++i) {
      if (task_.parameters[i].follows) {
        norm = where(is_finite(norm_of_squares(std::span(&squares[i], 1))), norm,
                     std::numeric_limits<double>::infinity());
      }
    }
  }
  return {norm, clip_ ? share * cast(clip_factor(norm, *clip_), share.dtype()) : share};
}

StepResult StepProgram::step(const Arguments& arguments) const {
  const TrainState& state = arguments.state;
  const Tensor step_key = fold_in(arguments.key, arguments.step);
  const Tensor loss_scale = loss_scale_of(state);
  LossAndGradient sum = summed(arguments, step_key, loss_scale);
  const Tensors squares =
      pipeline_ == nullptr ? squares_of(sum.gradient) : squares_of_all_stages(sum);

  const Tensor count = cast(sum.loss.count, sum.loss.sum.dtype());
  const Tensor divisor = where(equal(count, 0), 1, count);
  const Tensor loss = sum.loss.sum / divisor;
  const Tensor mean_scale = 1 / (gradient_.unit() * divisor);
  const Tensor share = loss_scale.defined() ? mean_scale / loss_scale : mean_scale;
  const auto [norm, scale] = clipping(squares, share);
  const Tensors layer_norms =
      looks_at_layers_ ? norms_of(task_, squares, share, mean_scale) : Tensors();
  const double largest = std::numeric_limits<float>::max();
  Tensors looked_up;
  for (const Tensor& gradient : sum.looked_up) {
    looked_up.push_back(gradient * cast(share, gradient.dtype()));
  }
  UpdateControl control{.apply = {}, .key = step_key, .shards = shards_, .mean_scale = mean_scale};
  if (may_skip_) {
    control.apply =
        logical_and(norm <= cast(arguments.norm_limit[0], norm.dtype()), abs(loss) <= largest);
  }
  const bool gathers = !has_parts_of_parameters();
  const auto move_slots = [&](OptimizerState optimizer, Tensor (*move)(const Arg&)) {
    const PartScope part(StepPart::kUpdate);
    const NameScope scope("optimizer");
    if (slots_on_host_) {
      for_slots(optimizer, [&](Tensor& slot) { slot = move(slot); });
    }
    return optimizer;
  };
  Tensors metrics;
  for (const Sum& metric : sum.metrics) {
    metrics.push_back(cast(metric.sum, Dtype::kF32) / cast(metric.count, Dtype::kF32));
  }
  TrainState next;
  std::tie(next.params, next.optimizer) =
      optimizer_.update(gathers ? in_parts(own(state.params), shards_) : own(state.params),
                        zero_ == 0 ? whole(std::move(sum.gradient), cut_, overlap_.gradients)
                                   : std::move(sum.gradient),
                        move_slots(state.optimizer, fetch), arguments.lr, scale, control);
  next.optimizer = move_slots(std::move(next.optimizer), stow);
  next.magnitudes = next_magnitudes_of(state, sum.magnitudes);
  if (gathers) {
    next.params = whole(std::move(next.params), shards_, overlap_.parameters);
  }
  if (pipeline_ != nullptr) {
    Params all = state.params;
    for (auto& [name, value] : next.params.items()) {
      all.set(name, std::move(value));
    }
    next.params = std::move(all);
  }
  StepResult result{.state = std::move(next),
                    .loss = loss,
                    .grad_norm = norm,
                    .loss_scale = {},
                    .layer_norms = layer_norms,
                    .looked_up = std::move(looked_up),
                    .metrics = std::move(metrics),
                    .is_applied = {}};
  if (may_skip_ && !task_.looked_up.empty()) {
    result.is_applied = {control.apply};
  }
  if (const auto& scaling = state.optimizer.loss_scale) {
    const Tensor finite = logical_and(norm <= largest, abs(loss) <= largest);
    result.state.optimizer.loss_scale = next_loss_scale(precision_, *scaling, finite);
    result.loss_scale = {loss_scale};
  }
  return result;
}

Tensors StepProgram::squares_of(const Params& gradient) const {
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("optimizer.clip_grad");
  std::vector<const Shard*> shards;
  for (size_t i = 0; i < gradient.size(); ++i) {
    shards.push_back(find_shard(cut_, gradient.name(i)));
  }
  return parts_.summed_squares(squares_of_parts(flatten_tree(gradient), shards), gradient);
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
    return step({std::move(state),
                 frozen,
                 std::move(batch),
                 scalars[0],
                 scalars[1],
                 scalars[2],
                 std::move(norm_limit),
                 {}});
  }
  Tensors weights;
  for (size_t i = 0; i < frozen_types_.size(); ++i) {
    weights.push_back(weight_of(frozen, task_.frozen[i].name, frozen_types_[i]));
  }
  Tensors sums;
  if (pipeline_ != nullptr) {
    sums = pipeline_sums(state, frozen, batch, scalars);
    weights.clear();
    batch.clear();
  }
  Tensors inputs;
  LeafVisitor take(LeafVisitor::Access::kWrite,
                   [&](const std::string&, Tensor& leaf) { inputs.push_back(std::move(leaf)); });
  take("", state);
  for (Tensors* more : {&weights, &batch, &scalars, &norm_limit, &sums}) {
    inputs.insert(inputs.end(), std::make_move_iterator(more->begin()),
                  std::make_move_iterator(more->end()));
  }
  inputs.insert(inputs.end(), captures_.begin(), captures_.end());
  StepResult result = with_leaves(result_form_, program_->run(std::move(inputs)));
  if (pipeline_ != nullptr) {
    send_copies(result.state.params);
  }
  return result;
}

void StepProgram::profile(std::vector<KernelTime>* kernels,
                          std::vector<ActionTime>* actions) const {
  if (program_ != nullptr) {
    program_->profile(kernels);
  }
  if (pipeline_ != nullptr) {
    pipeline_->profile(kernels, actions);
  }
}

}  // namespace mstrain
