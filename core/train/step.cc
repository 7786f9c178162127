#include "core/train/step.h"

#include "core/nn/random_scope.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/transform/accumulate.h"
#include "core/transform/clip.h"
#include "core/transform/grad.h"

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
  Tensor loss;
  Params gradient;

  template <class V>
  void fields(V& v) {
    v("loss", loss);
    v("gradient", gradient);
  }
};

std::vector<std::string> names_of(const TrainState& form, size_t batch) {
  std::vector<std::string> names;
  flatten_tree(form, &names);
  for (size_t i = 0; i < batch; ++i) {
    names.push_back(fmt::format("batch.{}", i));
  }
  names.insert(names.end(), {"lr", "key"});
  return names;
}

}  // namespace

struct StepProgram::Arguments {
  TrainState state;
  Tensors batch;
  Tensor lr;   // f32 []
  Tensor key;  // u32 [2]

  template <class V>
  void fields(V& v) {
    v("state", state);
    v("batch", batch);
    v("lr", lr);
    v("key", key);
  }
};

Params named_params(std::span<const ParamSpec> specs) {
  Params params;
  for (const ParamSpec& spec : specs) {
    params.set(spec.name, Tensor());
  }
  return params;
}

StepProgram::StepProgram(const TrainTask& task, const TrainConfig& config, int64_t micro,
                         const Context& context)
    : task_(task),
      context_(with_training(context, true)),
      optimizer_(config.optimizer, task.parameters),
      clip_(config.optimizer.clip_grad),
      micro_batches_(config.batch.global / micro) {
  check(micro > 0 && config.batch.global % micro == 0, "micro-batches of {} do not make up {}",
        micro, config.batch.global);
  {
    const Trace trace(Trace::Mode::kAbstract);
    TrainState abstract{abstract_params(task.parameters), {}};
    abstract.optimizer = optimizer_.init(abstract.params);
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
  const Types batch = task.batch_types(config.batch.global);
  types.insert(types.end(), batch.begin(), batch.end());
  types.push_back({Dtype::kF32, {}});
  types.push_back({Dtype::kU32, {2}});
  const Arguments form{form_, Tensors(batch.size()), Tensor(), Tensor()};
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
  options.input_names = names_of(form_, batch.size());
  options.input_names.resize(types.size() + captures_.size());
  program_ = compile(*graph, options);
}

std::pair<Tensor, Tensor> StepProgram::clipping(const Params& gradient, double share) const {
  const NameScope scope(fmt::format("{}.clip_grad", kOptimizerScope));
  const Tensor norm = share * global_norm(gradient);
  return {norm, clip_ ? share * (*clip_ / maximum(norm, *clip_)) : full({}, share)};
}

StepResult StepProgram::step(const Arguments& arguments) const {
  const auto& [state, batch, lr, key] = arguments;
  const Tensor step_key = fold_in(key, state.optimizer.step);
  const auto one = [&](const MicroBatch& micro) {
    // Every micro-batch draws its own numbers, those of its first sample.
    const RandomScope random(fold_in(step_key, select(micro.rows, 0, 0)));
    auto [loss, gradient] = value_and_grad(
        [&](const Params& params) { return task_.loss(params, micro.samples); })(state.params);
    return LossAndGradient{loss, gradient};
  };
  const MicroBatch all{batch, iota({batch.at(0).dim(0)}, 0)};
  const LossAndGradient sum = micro_batches_ == 1 ? one(all) : accumulate(micro_batches_, one)(all);

  const double share = 1.0 / static_cast<double>(micro_batches_);
  const auto [norm, scale] = clipping(sum.gradient, share);
  auto [params, optimizer] =
      optimizer_.update(state.params, sum.gradient, state.optimizer, lr, scale);
  return {{std::move(params), std::move(optimizer)}, share * sum.loss, norm};
}

StepResult StepProgram::run(TrainState state, Tensors batch, double lr, uint64_t seed) const {
  const ContextScope scope(context_);
  const Tensor rate = scalar(lr);
  const Tensor key = rng_key(seed);
  if (program_ == nullptr) {
    return step({std::move(state), std::move(batch), rate, key});
  }
  Tensors inputs;
  LeafVisitor take(LeafVisitor::Access::kWrite,
                   [&](const std::string&, Tensor& leaf) { inputs.push_back(std::move(leaf)); });
  take("", state);
  inputs.insert(inputs.end(), batch.begin(), batch.end());
  inputs.push_back(rate);
  inputs.push_back(key);
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
    : task_(task), context_(with_training(context, false)) {
  if (config.run.execution == Execution::kEager) {
    return;
  }
  const ContextScope scope(context_);
  const Params form = named_params(task.parameters);
  Types types;
  for (const ParamSpec& spec : task.parameters) {
    types.push_back(spec.type);
  }
  const size_t parameters = types.size();
  const Types batch = task.batch_types(rows);
  types.insert(types.end(), batch.begin(), batch.end());
  const GraphPtr graph = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        const LossSum loss =
            task.evaluate(with_leaves(form, leaves.first(parameters)), leaves.subspan(parameters));
        return Tensors{loss.sum, loss.count};
      },
      &captures_);
  program_ = compile(*graph, options_of(config));
}

LossProgram::Value LossProgram::run(const Params& params, Tensors batch) const {
  const ContextScope scope(context_);
  Tensors result;
  if (program_ == nullptr) {
    const LossSum loss = task_.evaluate(params, batch);
    result = {loss.sum, loss.count};
  } else {
    Tensors inputs = flatten_tree(params);
    inputs.insert(inputs.end(), batch.begin(), batch.end());
    inputs.insert(inputs.end(), captures_.begin(), captures_.end());
    result = program_->run(std::move(inputs));
  }
  return {item(result[0]), item(result[1])};
}

}  // namespace mstrain
