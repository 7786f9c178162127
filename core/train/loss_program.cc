#include "core/train/loss_program.h"

#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/train/gradient_program.h"
#include "core/train/stage_programs.h"
#include "core/transform/precision.h"

namespace mstrain {
namespace {

// What batches give is not added up, but kept in their order.
SumRule in_order(int64_t batches) {
  const auto zeros_of = [batches](std::span<const TensorType> values) {
    Tensors out;
    for (const TensorType& value : values) {
      check(value.shape.rank() == 0, "an evaluation sums up numbers, not {}", to_string(value));
      out.push_back(zeros({value.dtype, {batches}}));
    }
    return out;
  };
  const auto add = [batches](std::span<const Tensor> so_far, std::span<const Tensor> values) {
    Tensors out;
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor parts[] = {slice(so_far[i], 0, 1, batches), reshape(values[i], {1})};
      out.push_back(concat(parts, 0));
    }
    return out;
  };
  return {zeros_of, add};
}

}  // namespace

LossProgram::LossProgram(const TrainTask& task, const TrainConfig& config, int64_t rows,
                         const Context& context, const Shards& shards, int64_t stage)
    : task_(task),
      context_(with_training(context, false)),
      dtype_(config.precision.param_dtype()),
      parts_(task, config, context),
      stages_{std::string(kPipelineAxis), pipeline_ranks(config.parallel, context)},
      stage_(context.ranks == nullptr ? stage : context.ranks->coordinate(kPipelineAxis)),
      batches_(stages_.size),
      rows_(rows),
      weights_(parts_.held().begin(), parts_.held().end()),
      shards_(shards) {
  if (dtype_ != Dtype::kF32) {
    for (ParamSpec& spec : weights_) {
      spec.type.dtype = dtype_;
    }
  }
  weights_.insert(weights_.end(), parts_.held_frozen().begin(), parts_.held_frozen().end());
  Types types;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const size_t trained = task.parameters.size();
    types.push_back({weights_[i].type.dtype, i < trained ? task.parameters[i].type.shape
                                                         : task.frozen[i - trained].type.shape});
    shard_of_.push_back(find_shard(shards_, weights_[i].name));
    if (shard_of_.back() != nullptr) {
      weights_[i].type.shape = {shard_of_.back()->elements()};
    }
  }
  if (config.run.execution == Execution::kEager) {
    check(stages_.size == 1, "run.execution: eager has no programs to make a pipeline of");
    return;
  }
  const ContextScope scope(context_);
  const Params form = named_params(weights_);
  const Types batch = task.batch_types(rows);
  types.insert(types.end(), batch.begin(), batch.end());
  GraphPtr graph = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        return evaluate(with_leaves(form, leaves.first(weights_.size())),
                        leaves.subspan(weights_.size()));
      },
      &captures_);
  outputs_ = graph->outputs().size();
  graph = parts_.divided(graph, {weights_.size(), batch.size(), rows}, outputs_);
  graph = from_parts(graph, shard_of_, config.parallel.overlap.parameters);
  if (stages_.size == 1) {
    program_ = compile(*graph, options_of(config));
    return;
  }
  const auto [schedule, first] =
      pipeline_layout(config.parallel, marked_layers(*graph), stages_.size, batches_);
  pipeline_ =
      std::make_unique<Pipeline>(*graph, Pipeline::Inputs{weights_.size(), batch.size()}, schedule,
                                 first, static_cast<int>(stage_), options_of(config),
                                 [&](const Pipeline::Group&) { return in_order(batches_); });
}

bool LossProgram::reads(const std::string& name) const {
  const auto found = std::find_if(weights_.begin(), weights_.end(),
                                  [&](const ParamSpec& spec) { return spec.name == name; });
  return found != weights_.end() && reads(static_cast<size_t>(found - weights_.begin()));
}

Tensors LossProgram::evaluate(const Params& params, std::span<const Tensor> batch) const {
  return in_precision(dtype_, [&](const Params& p) -> Tensors {
    const TaskSums sums = task_.sums(p, batch);
    check(sums.metrics.size() == task_.metrics.size(), "the task names {} metrics and gives {}",
          task_.metrics.size(), sums.metrics.size());
    check(sums.scores.size() == score_tensors(), "the task gives {} tensors of scores",
          sums.scores.size());
    return flatten_tree(sums);
  })(params);
}

std::vector<std::vector<double>> LossProgram::run_stages(const Tensors& inputs) const {
  Communicator& ranks = context_.ranks->along(stages_.name);
  const std::vector<Tensors> sums = pipeline_->run(inputs, ranks);
  std::vector<std::vector<double>> out(outputs_, std::vector<double>(batches_));
  for (size_t g = 0; g < sums.size(); ++g) {
    const std::vector<int>& results = pipeline_->groups()[g].results;
    for (size_t i = 0; i < results.size(); ++i) {
      out[static_cast<size_t>(results[i])] = to_doubles(sums[g][i]);
    }
  }
  for (size_t i = 0; i < outputs_; ++i) {
    ranks
        .broadcast({out[i].data(), batches_, Dtype::kF64}, pipeline_->maker(static_cast<int>(i)),
                   "evaluation")
        .wait();
  }
  return out;
}

std::vector<LossProgram::Found> LossProgram::run(const Params& params, Tensors samples) const {
  const ContextScope scope(context_);
  Tensors inputs;
  for (size_t i = 0; i < weights_.size(); ++i) {
    inputs.push_back(reads(i) ? cast(weight_of(params, weights_[i].name, weights_[i].type),
                                     weights_[i].type.dtype)
                              : Tensor());
  }
  std::vector<std::vector<double>> results;  // by sum and count, of each batch
  Tensors scores;
  const auto take = [&](std::span<const Tensor> values) {
    const size_t sums = values.size() - score_tensors();
    for (const Tensor& value : values.first(sums)) {
      results.push_back({item(value)});
    }
    scores.assign(values.begin() + static_cast<ptrdiff_t>(sums), values.end());
  };
  if (pipeline_ == nullptr && program_ == nullptr) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = shard_of_[i] == nullptr ? inputs[i] : whole_of(inputs[i], *shard_of_[i]);
    }
    take(evaluate(with_leaves(named_params(weights_), inputs), samples));
  } else {
    samples = parts_.own_positions(std::move(samples));
    inputs.insert(inputs.end(), samples.begin(), samples.end());
    inputs.insert(inputs.end(), captures_.begin(), captures_.end());
    if (pipeline_ != nullptr) {
      results = run_stages(inputs);
    } else {
      take(program_->run(std::move(inputs)));
    }
  }
  std::vector<Found> out(static_cast<size_t>(batches_));
  for (size_t b = 0; b < out.size(); ++b) {
    for (size_t i = 0; i < results.size(); i += 2) {
      out[b].sums.push_back({results[i][b], results[i + 1][b]});
    }
  }
  if (!scores.empty()) {
    out[0].scores = to_doubles(scores[0]);
    out[0].labels = to_doubles(scores[1]);
    out[0].groups = task_.has_groups ? to_doubles(scores[2]) : std::vector<double>();
  }
  return out;
}

ProgramMemory LossProgram::memory() const {
  if (pipeline_ == nullptr) {
    return program_ == nullptr ? ProgramMemory() : program_->memory();
  }
  ProgramMemory memory = pipeline_->memory();
  for (size_t i = 0; i < weights_.size(); ++i) {
    memory.inputs += reads(i) ? weights_[i].type.bytes() : 0;
  }
  for (const TensorType& type : task_.batch_types(rows_)) {
    memory.inputs += type.bytes() * batches_;
  }
  return memory;
}

std::string LossProgram::text(const std::function<std::string(const Program&)>& text_of) const {
  return pipeline_ == nullptr ? text_of(*program_) : pipeline_->text(text_of);
}

}  // namespace mstrain
