// What the micro-batches of a step, on all ranks, add up to (core/train/step.h).
#include "core/compile/regather.h"
#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/optim/float8_magnitudes.h"
#include "core/train/rank_sums.h"
#include "core/train/step.h"
#include "core/transform/accumulate.h"

namespace mstrain {

MicroBatch StepProgram::numbered(const Tensors& batch) const {
  const int64_t rows = batch.at(0).dim(0);
  if (data_.size == 1) {
    return {batch, iota({rows}, 0)};
  }
  const int64_t turns = micro_batches_ / data_.size;
  const Shape each{turns, rows / turns};
  const auto micro = static_cast<double>(each[1]);
  const Tensor first = axis_index(data_) * micro;
  const Tensor places =
      iota(each, 0) * (micro * static_cast<double>(data_.size)) + iota(each, 1) + first;
  return {batch, reshape(places, {rows})};
}

LossAndGradient StepProgram::summed(const Arguments& arguments, const Tensor& step_key,
                                    const Tensor& loss_scale) const {
  if (pipeline_ != nullptr) {
    return of_own_stage(arguments.sums);
  }
  const Tensor expected = magnitudes_expected(arguments.state);
  const auto one = [&](const MicroBatch& micro) {
    return gradient_({held_params(arguments.state), held_frozen(arguments.frozen), step_key,
                      loss_scale, expected},
                     micro);
  };
  const MicroBatch all = numbered(arguments.batch);
  if (data_.size > 1) {
    return summed_over_ranks(one, all);
  }
  return micro_batches_ == 1 ? one(all)
                             : accumulate(micro_batches_, one, gradient_.sums_in_own_type(),
                                          copies_, gradient_.results_apart())(all);
}

Tensor StepProgram::magnitudes_expected(const TrainState& state) {
  return state.magnitudes.empty() ? Tensor() : expected_magnitudes(state.magnitudes[0]);
}

Tensors StepProgram::next_magnitudes_of(const TrainState& state, const Tensors& found) const {
  if (found.empty()) {
    return {};
  }
  const PartScope part(StepPart::kUpdate);
  const NameScope scope("precision.products");
  Tensor most = max(found[0], {0});
  if (data_.size > 1) {
    most = all_reduce(most, data_, Reduction::kMax);
  }
  return {next_magnitudes(state.magnitudes[0], most)};
}

StepProgram::Summing StepProgram::summing(const Types& values,
                                          std::vector<const Shard*> shards) const {
  const bool own_type = gradient_.sums_in_own_type();
  const auto in_types_of_values = [values](Tensors sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = cast(sums[i], values[i].dtype);
    }
    return sums;
  };
  if (data_.size == 1) {
    return {plain_sums(own_type), [=](std::span<const Tensor> sums) {
              return in_types_of_values({sums.begin(), sums.end()});
            }};
  }
  const auto over_ranks = std::make_shared<RankSums>(
      data_, std::move(shards),
      RankSums::Options{.reduction = in_order_ ? Reduction::kSum : Reduction::kFastSum,
                        .in_own_type = own_type,
                        .bundle_bytes = bundle_bytes_,
                        .waits = !overlap_.gradients});
  if (in_order_ || zero_ >= 2) {
    return {over_ranks->rule(values),
            [=](std::span<const Tensor> sums) { return over_ranks->finish(sums, values); }};
  }
  // Each rank's own first, and those of all ranks once.
  return {plain_sums(own_type), [=](std::span<const Tensor> own) {
            const Types types = types_of(own);
            const SumRule rule = over_ranks->rule(types);
            return in_types_of_values(over_ranks->finish(rule.add(rule.zeros(types), own), types));
          }};
}

template <class F>
LossAndGradient StepProgram::summed_over_ranks(const F& one, const MicroBatch& all) const {
  const int64_t turns = micro_batches_ / data_.size;
  std::vector<std::string> paths;
  const Tensors leaves = flatten_tree(all, &paths);
  const auto recorded = record(one, std::make_tuple(all), micro_types(turns, leaves, paths));
  const size_t apart = gradient_.results_apart();
  const std::span<const Value> outputs(recorded.program->outputs());
  Types values;
  for (const Value& value : outputs.first(outputs.size() - apart)) {
    values.push_back(recorded.program->type(value));
  }
  std::vector<const Shard*> shards(gradient_.sums(), nullptr);
  for (const ParamSpec& spec : task_.parameters) {
    shards.push_back(find_shard(cut_, spec.name));
  }
  const Summing sums = summing(values, std::move(shards));
  const GraphPtr program = regathers() ? regathered(*recorded.program) : recorded.program;
  const Tensors results =
      accumulate_by(sums.each, turns, program, recorded.captures, leaves, copies_, apart);
  const std::span<const Tensor> all_results(results);
  Tensors finished = sums.finish(all_results.first(results.size() - apart));
  finished.insert(finished.end(), results.end() - static_cast<ptrdiff_t>(apart), results.end());
  return recorded.rebuild(finished);
}

}  // namespace mstrain
