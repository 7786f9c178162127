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
  const auto one = [&](const GradientProgram& program, const MicroBatch& micro) {
    return program({held_params(arguments.state), held_frozen(arguments.frozen), step_key,
                    loss_scale, expected},
                   micro);
  };
  const MicroBatch all = numbered(arguments.batch);
  if (data_.size > 1 || !length_parts_.empty()) {
    return summed_in_loops(one, all);
  }
  const auto whole = [&](const MicroBatch& micro) { return one(gradient_, micro); };
  return micro_batches_ == 1 ? whole(all)
                             : accumulate(micro_batches_, whole, gradient_.sums_in_own_type(),
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

MicroBatch StepProgram::cut(const MicroBatch& all, int64_t first, int64_t count,
                            const TrainTask& task) {
  const Types types = task.batch_types(count);
  MicroBatch out{{}, slice(all.rows, 0, first, first + count)};
  for (size_t i = 0; i < all.samples.size(); ++i) {
    Tensor x = slice(all.samples[i], 0, first, first + count);
    for (int d = 1; d < types[i].shape.rank(); ++d) {
      x = x.dim(d) == types[i].shape[d] ? x : slice(x, d, 0, types[i].shape[d]);
    }
    out.samples.push_back(x);
  }
  return out;
}

template <class F>
LossAndGradient StepProgram::summed_in_loops(const F& one, const MicroBatch& all) const {
  const int64_t micro = gradient_.rows() / micro_batches_;
  const size_t apart = gradient_.results_apart();
  std::optional<Recorded<LossAndGradient>> recorded;
  std::optional<Summing> sums;
  Tensors so_far;
  std::vector<Tensors> of_samples(apart);
  int64_t first = 0;
  const auto add = [&](const GradientProgram& program, const MicroBatch& part) {
    const int64_t turns = part.rows.dim(0) / micro;
    std::vector<std::string> paths;
    const Tensors leaves = flatten_tree(part, &paths);
    recorded = record([&](const MicroBatch& samples) { return one(program, samples); },
                      std::make_tuple(part), micro_types(turns, leaves, paths));
    const std::span<const Value> outputs(recorded->program->outputs());
    if (!sums) {
      Types values;
      for (const Value& value : outputs.first(outputs.size() - apart)) {
        values.push_back(recorded->program->type(value));
      }
      std::vector<const Shard*> shards(gradient_.sums(), nullptr);
      for (const ParamSpec& spec : task_.parameters) {
        shards.push_back(find_shard(cut_, spec.name));
      }
      sums = summing(values, std::move(shards));
    }
    const GraphPtr each = regathers() ? regathered(*recorded->program) : recorded->program;
    Tensors results =
        accumulate_by(sums->each, turns, each, recorded->captures, leaves, copies_, apart, so_far);
    for (size_t i = apart; i > 0; --i) {
      of_samples[i - 1].push_back(results.back());
      results.pop_back();
    }
    so_far = std::move(results);
  };
  if (length_parts_.empty()) {
    add(gradient_, all);
  }
  for (size_t i = 0; i < length_parts_.size(); ++i) {
    const int64_t samples = length_parts_[i].samples / data_.size;
    add(i < shorter_.size() ? shorter_[i] : gradient_,
        cut(all, first, samples, length_parts_[i].task));
    first += samples;
  }
  Tensors finished = sums->finish(so_far);
  for (const Tensors& parts : of_samples) {
    finished.push_back(parts.size() == 1 ? parts[0] : concat(parts, 0));
  }
  return recorded->rebuild(finished);
}

}  // namespace mstrain
