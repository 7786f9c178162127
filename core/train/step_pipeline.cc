// What a step does where its layers are shared (core/train/step.h).
#include <algorithm>

#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/optim/float8_magnitudes.h"
#include "core/tensor/host.h"
#include "core/train/stage_programs.h"
#include "core/train/step.h"

namespace mstrain {
namespace {

// Values of which the last are magnitudes: of these the largest counts.
SumRule with_largest(const SumRule& sums, size_t magnitudes) {
  return {[=](std::span<const TensorType> values) {
            Tensors out = sums.zeros(values.first(values.size() - magnitudes));
            out.resize(out.size() + magnitudes, full({}, 0));
            return out;
          },
          [=](std::span<const Tensor> before, std::span<const Tensor> values) {
            const size_t summed = before.size() - magnitudes;
            Tensors out = sums.add(before.first(summed), values.first(values.size() - magnitudes));
            for (size_t i = 0; i < magnitudes; ++i) {
              out.push_back(maximum(before[summed + i], values[values.size() - magnitudes + i]));
            }
            return out;
          }};
}

Elements elements_of(const std::byte* data, const TensorType& type) {
  return {const_cast<std::byte*>(data), type.elements(), type.dtype};
}

Params chosen(const Params& params, std::span<const ParamSpec> specs,
              const std::function<bool(size_t)>& choose) {
  Params out;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (choose(i)) {
      out.set(specs[i].name, *params.find(specs[i].name));
    }
  }
  return out;
}

}  // namespace

void StepProgram::make_pipeline(const TrainConfig& config, const CompileOptions& options) {
  const ContextScope scope(context_);
  check(gradient_.graph() != nullptr, "run.execution: eager has no programs to make a pipeline of");
  const auto [schedule, first] =
      pipeline_layout(config.parallel, marked_layers(*gradient_.graph()), stages_.size,
                      micro_batches_ / data_.size / copies_);
  const auto rule_of = [&](const Pipeline::Group& group) {
    std::vector<const Shard*> shards;
    for (const int result : group.results) {
      if (!is_magnitude(result)) {
        shards.push_back(is_sum(result)
                             ? nullptr
                             : find_shard(cut_, task_.parameters[parameter_of(result)].name));
      }
    }
    const Types summed(group.values.begin(),
                       group.values.begin() + static_cast<ptrdiff_t>(shards.size()));
    group_sums_.push_back(summing(summed, std::move(shards)));
    return with_largest(group_sums_.back().each, group.values.size() - summed.size());
  };
  std::vector<const Shard*> in_parts;
  for (const ParamSpec& spec : task_.parameters) {
    in_parts.push_back(has_parts_of_parameters() ? find_shard(shards_, spec.name) : nullptr);
  }
  for (const ParamSpec& spec : task_.frozen) {
    in_parts.push_back(find_shard(frozen_shards_, spec.name));
  }
  const GraphPtr gradient = from_parts(gradient_.graph(), std::move(in_parts), overlap_.parameters);
  pipeline_ = std::make_unique<Pipeline>(
      *gradient,
      Pipeline::Inputs{gradient_.weights(), gradient_.batch_tensors(), static_cast<int>(copies_)},
      schedule, first, static_cast<int>(stage_), options, rule_of);
}

size_t StepProgram::result_of(size_t parameter) const { return parameter + gradient_.sums(); }

size_t StepProgram::parameter_of(int result) const {
  return static_cast<size_t>(result) - gradient_.sums();
}

bool StepProgram::is_sum(int result) const {
  return static_cast<size_t>(result) < gradient_.sums();
}

bool StepProgram::is_magnitude(int result) const {
  return static_cast<size_t>(result) >= result_of(task_.parameters.size());
}

int StepProgram::maker(size_t parameter) const {
  return pipeline_ == nullptr ? 0 : pipeline_->maker(static_cast<int>(result_of(parameter)));
}

bool StepProgram::is_here(size_t parameter) const {
  return pipeline_ == nullptr || updates(parameter) || pipeline_->reads(parameter);
}

Params StepProgram::of_stage(const Params& params) const {
  return chosen(params, task_.parameters, [&](size_t i) { return is_here(i); });
}

Params StepProgram::own(const Params& params) const {
  return chosen(params, task_.parameters, [&](size_t i) { return updates(i); });
}

std::vector<ParamSpec> StepProgram::stage_parameters() const {
  std::vector<ParamSpec> out;
  for (size_t i = 0; i < task_.parameters.size(); ++i) {
    if (is_here(i)) {
      out.push_back(task_.parameters[i]);
    }
  }
  return out;
}

int StepProgram::first_rank_with(size_t parameter) const {
  return maker(parameter) * static_cast<int>(data_.size * parts_.ranks());
}

Params StepProgram::of_all_stages(const Params& params) const {
  Communicator& group = context_.ranks->along(stages_.name);
  Params all;
  for (size_t i = 0; i < task_.parameters.size(); ++i) {
    const std::string& name = task_.parameters[i].name;
    const Shard* const shard = has_parts_of_parameters() ? find_shard(shards_, name) : nullptr;
    const TensorType type{param_types_[i].dtype, parts_.held()[i].type.shape};
    if (updates(i)) {
      const Tensor& held = *params.find(name);
      const Tensor own = shard == nullptr ? held : dense(whole_of(held, *shard));
      const HostRead read(own);
      group.broadcast(elements_of(read.data(), type), maker(i), name).wait();
      all.set(name, own);
    } else {
      HostWrite write(type);
      group.broadcast(elements_of(write.bytes().data(), type), maker(i), name).wait();
      all.set(name, write.finish());
    }
  }
  return all;
}

Tensors StepProgram::pipeline_sums(const TrainState& state, const Params& frozen,
                                   const Tensors& batch, const Tensors& scalars) const {
  const Tensors inputs = gradient_.inputs({state.params, frozen, fold_in(scalars[1], scalars[2]),
                                           loss_scale_of(state), magnitudes_expected(state)},
                                          numbered(batch));
  Tensors all;
  for (Tensors& sums : pipeline_->run(inputs, context_.ranks->along(stages_.name))) {
    all.insert(all.end(), std::make_move_iterator(sums.begin()),
               std::make_move_iterator(sums.end()));
  }
  return all;
}

LossAndGradient StepProgram::of_own_stage(std::span<const Tensor> sums) const {
  LossAndGradient out;
  out.metrics.resize(gradient_.metrics());
  out.magnitudes.resize(3 * gradient_.float8_weights().size());
  for (size_t g = 0; g < group_sums_.size(); ++g) {
    const Pipeline::Group& group = pipeline_->groups()[g];
    const auto magnitudes =
        static_cast<size_t>(std::count_if(group.results.begin(), group.results.end(),
                                          [&](int result) { return is_magnitude(result); }));
    const auto [summed, largest] =
        std::pair(sums.first(group.sums.size() - magnitudes),
                  sums.subspan(group.sums.size() - magnitudes, magnitudes));
    Tensors values = group_sums_[g].finish(summed);
    values.insert(values.end(), largest.begin(), largest.end());
    sums = sums.subspan(group.sums.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const int result = group.results[i];
      if (is_magnitude(result)) {
        out.magnitudes[static_cast<size_t>(result) - result_of(task_.parameters.size())] =
            values[i];
      } else if (is_sum(result)) {
        Sum& sum = result < 2 ? out.loss : out.metrics[static_cast<size_t>(result) / 2 - 1];
        (result % 2 == 0 ? sum.sum : sum.count) = values[i];
      } else {
        out.gradient.set(task_.parameters[parameter_of(result)].name, values[i]);
      }
    }
  }
  return out;
}

// One stage knows each number; to it zeros are added, which changes no bit.
Tensors StepProgram::squares_of_all_stages(LossAndGradient& sum) const {
  Params own_squares;
  const Tensors squares = squares_of(sum.gradient);
  for (size_t i = 0; i < squares.size(); ++i) {
    own_squares.set(sum.gradient.name(i), squares[i]);
  }
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("stages");
  const Graph& graph = *gradient_.graph();
  const auto type_of = [&](size_t result) { return graph.type(graph.outputs()[result]).dtype; };
  Tensors numbers;
  std::vector<Dtype> types;
  const auto add = [&](const Tensor& number, Dtype type) {
    numbers.push_back(number.defined() ? reshape(cast(number, Dtype::kF64), {1})
                                       : full({1}, 0, Dtype::kF64));
    types.push_back(type);
  };
  add(sum.loss.sum, type_of(0));
  add(sum.loss.count, type_of(1));
  for (size_t i = 0; i < sum.metrics.size(); ++i) {
    add(sum.metrics[i].sum, type_of(2 * i + 2));
    add(sum.metrics[i].count, type_of(2 * i + 3));
  }
  for (size_t i = 0; i < task_.parameters.size(); ++i) {
    const Tensor* const own = own_squares.find(task_.parameters[i].name);
    add(own == nullptr ? Tensor() : *own,
        type_of(result_of(i)) == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32);
  }
  for (const Tensor& magnitude : sum.magnitudes) {
    add(magnitude, Dtype::kF32);
  }
  const Tensor all = all_reduce(concat(numbers, 0), stages_);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = cast(select(all, 0, static_cast<int64_t>(i)), types[i]);
  }
  sum.loss = {numbers[0], numbers[1]};
  for (size_t i = 0; i < sum.metrics.size(); ++i) {
    sum.metrics[i] = {numbers[2 * i + 2], numbers[2 * i + 3]};
  }
  const auto squares_begin = numbers.begin() + static_cast<ptrdiff_t>(gradient_.sums());
  const auto squares_end = numbers.end() - static_cast<ptrdiff_t>(sum.magnitudes.size());
  if (!sum.magnitudes.empty()) {
    sum.magnitudes = {magnitudes_of({squares_end, numbers.end()})};
  }
  return {squares_begin, squares_end};
}

void StepProgram::send_copies(Params& params) const {
  struct Sent {
    HostRead value;
    Event gone;
  };
  Communicator& group = context_.ranks->along(stages_.name);
  std::vector<Sent> sent;
  // Where a step fails, messages on their way are read from memory that goes with it.
  struct SettleOnExit {
    const std::vector<Sent>& sent;
    ~SettleOnExit() {
      for (const Sent& it : sent) {
        it.gone.settle();
      }
    }
  };
  const SettleOnExit settled{sent};
  for (size_t i = 0; i < task_.parameters.size(); ++i) {
    const std::string& name = task_.parameters[i].name;
    if (updates(i)) {
      for (const int reader : pipeline_->readers(i)) {
        if (reader != stage_) {
          HostRead read(*params.find(name));
          const Event gone = group.send(elements_of(read.data(), param_types_[i]), reader, name);
          sent.push_back({std::move(read), gone});
        }
      }
    } else if (is_here(i)) {
      params.set(name, Tensor());  // its memory is used again
      HostWrite write(param_types_[i]);
      group.receive(elements_of(write.bytes().data(), param_types_[i]), maker(i), name).wait();
      params.set(name, write.finish());
    }
  }
  for (const Sent& it : sent) {
    it.gone.wait();
  }
}

ProgramMemory StepProgram::memory() const {
  ProgramMemory sum = program_->memory();
  if (pipeline_ == nullptr) {
    return sum;
  }
  const auto add = [](int64_t& to, std::span<const TensorType> types, int sign) {
    for (const TensorType& type : types) {
      to += sign * type.bytes();
    }
  };
  for (const Pipeline::Group& group : pipeline_->groups()) {
    add(sum.inputs, group.sums, -1);  // which the pipeline counts
  }
  add(sum.inputs, frozen_types_, 1);
  const Graph& graph = *gradient_.graph();
  for (size_t i = gradient_.weights(); i < graph.inputs().size(); ++i) {
    const TensorType type = graph.type(graph.inputs()[i]);
    const bool is_batch = i < gradient_.weights() + gradient_.batch_tensors();
    sum.inputs += type.bytes() * (is_batch ? micro_batches_ / data_.size : 1);
  }
  const ProgramMemory pipeline = pipeline_->memory();
  sum.host += pipeline.host;
  sum.arena += pipeline.arena;  // each program keeps its own
  for (int64_t ProgramMemory::*bytes : {&ProgramMemory::gradients, &ProgramMemory::saved,
                                        &ProgramMemory::transient, &ProgramMemory::workspace}) {
    sum.*bytes = std::max(sum.*bytes, pipeline.*bytes);
  }
  return sum;
}

ProgramCost StepProgram::cost() const {
  ProgramCost sum = program_->cost();
  if (pipeline_ != nullptr) {
    const ProgramCost pipeline = pipeline_->cost();
    sum.flops += pipeline.flops;
    sum.bytes += pipeline.bytes;
    sum.kernels += pipeline.kernels;
    sum.seconds += pipeline.seconds;
  }
  return sum;
}

std::string StepProgram::text(const std::function<std::string(const Program&)>& text_of) const {
  return pipeline_ == nullptr ? text_of(*program_)
                              : pipeline_->text(text_of) + "== update\n" + text_of(*program_);
}

}  // namespace mstrain
