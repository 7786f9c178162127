#include "core/train/planned_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/base/thread_pool.h"
#include "core/ir/backend.h"
#include "core/train/held_bytes.h"
#include "core/train/machine.h"
#include "core/train/numbers.h"
#include "core/train/stages.h"

namespace mstrain {
namespace {

// Elements of what is kept for each parameter in parts, where there are parts.
int64_t elements_held(const StepProgram& step) {
  int64_t sum = 0;
  for (size_t i = 0; i < step.parts().held().size(); ++i) {
    const ParamSpec& spec = step.parts().held()[i];
    if (step.updates(i)) {
      const Shard* const shard = find_shard(step.shards(), spec.name);
      sum += shard == nullptr ? spec.type.elements() : shard->elements();
    }
  }
  return sum;
}

// What a stage is sent to write samples: parameters that others update.
int64_t bytes_elsewhere(const StepProgram& step) {
  int64_t sum = 0;
  for (size_t i = 0; i < step.param_types().size(); ++i) {
    sum += step.updates(i) ? 0 : step.param_types()[i].bytes();
  }
  return sum;
}

int64_t gradient_bytes(const StepProgram& step, Dtype dtype) {
  return elements_held(step) * size_of(dtype);
}

// What a step holds whatever its batch, without a plan: programs of eager mode are not compiled.
int64_t state_and_gradient_bytes(const TrainTask& task, TrainConfig config,
                                 const Context& context) {
  config.run.execution = Execution::kEager;
  const StepProgram step(task, config, largest_micro_batch(config, context), context);
  const std::span<const TensorType> state(step.state_types());
  return bytes_of(state) - step.host_state_bytes() +
         gradient_bytes(step, config.precision.param_dtype()) + bytes_of(step.frozen_types());
}

// Which of `choices`, in rising order, is the largest that `total` puts within `limit`; the first, if none is. Memory grows with
// the micro-batch, nearly as a line: it lies between one that fits and one that is too large, and probably where the line
// between them meets the limit. `total` is asked on the threads of `pool`. With it, the total of the next larger one, where that
// is known.
std::pair<size_t, std::optional<int64_t>> largest_that_fits(std::span<const int64_t> choices,
                                                            int64_t limit, ThreadPool& pool,
                                                            const TotalOfMicro& total) {
  const std::array<int64_t, 2> ends{choices.front(), choices.back()};
  std::array<int64_t, 2> totals{};
  pool.parallel_for(choices.size() > 1 ? 2 : 1, 1, [&](int64_t i, int64_t) {
    const auto end = static_cast<size_t>(i);
    totals[end] = total(ends[end]);
  });
  if (choices.size() == 1 || totals[0] > limit) {
    return {0, std::nullopt};
  }
  size_t fits = 0;
  size_t too_large = choices.size() - 1;
  auto [below, above] = totals;
  if (above <= limit) {
    return {too_large, std::nullopt};
  }
  while (too_large - fits > 1) {
    const double slope = static_cast<double>(above - below) /
                         static_cast<double>(choices[too_large] - choices[fits]);
    const double room = static_cast<double>(limit - below) / std::max(slope, 1.0);
    size_t tried = fits + 1;
    while (tried + 1 < too_large &&
           static_cast<double>(choices[tried + 1] - choices[fits]) <= room) {
      ++tried;
    }
    const int64_t bytes = total(choices[tried]);
    if (bytes <= limit) {
      below = bytes;
      fits = tried;
    } else {
      above = bytes;
      too_large = tried;
    }
  }
  return {fits, above};
}

}  // namespace

int64_t RunPlan::total() const {
  const int64_t beside = evaluates ? evaluation.arena + evaluation.outputs : 0;
  return step.inputs + ahead_bytes + read_bytes + step.outputs + step.arena + beside + whole_bytes +
         outside_bytes + snapshot_bytes;
}

int64_t memory_limit(const MemoryConfig& config, const Context& context) {
  if (!config.limit_gb.is_word()) {
    return static_cast<int64_t>(*config.limit_gb.value * 1e9);
  }
  const int64_t own =
      std::max(context.backend->memory_bytes, context.allocator->device()->memory_bytes());
  return own > 0 ? own : this_machine().memory_bytes;
}

int64_t largest_micro_batch(const TrainConfig& config, const Context& context) {
  return config.batch.global / data_ranks(config.parallel, context) / config.parallel.copies;
}

PlannedRun plan_run(const TrainTask& task, const TrainConfig& config, const Context& context,
                    int64_t limit, bool evaluates, int64_t micro, const TotalOfMicro& about) {
  const auto of_stage = [&](int64_t rows, int64_t stage, Regather regather) {
    PlannedRun run;
    TrainConfig planned = config;
    planned.parallel.zero.regather = regather;
    planned.run.execution = Execution::kGraph;
    if (config.run.execution == Execution::kEager) {
      planned.fusion.level = FusionLevel::kO0;
    }
    run.step = std::make_unique<StepProgram>(task, planned, rows, context, stage);
    RunPlan& plan = run.plan;
    plan.evaluates = evaluates;
    if (evaluates) {
      run.loss = std::make_unique<LossProgram>(task, planned, rows, context,
                                               run.step->shards_of_weights(), stage);
      plan.evaluation = run.loss->memory();
    }
    for (const ParamSpec& spec : task.parameters) {
      plan.parameters += spec.type.elements();
    }
    for (const ParamSpec& spec : task.frozen) {
      plan.frozen += spec.type.elements();
    }
    plan.frozen = task.frozen_numbers.value_or(plan.frozen);
    const HeldBytes held = held_bytes(task, planned, run.step->parts(), context);
    plan.frozen_bytes = held.frozen;
    const std::span<const TensorType> state(run.step->state_types());
    plan.parameter_bytes = bytes_of(state.first(run.step->stage_parameters().size()));
    plan.optimizer_bytes = bytes_of(state) - plan.parameter_bytes;
    plan.optimizer_on_host = run.step->host_state_bytes();
    plan.whole_bytes = held.whole + (held.whole_of_stages ? bytes_elsewhere(*run.step) : 0);
    // The count of updates; a loss scale, and the count of steps taken with it; magnitudes.
    plan.number_bytes = size_of(Dtype::kI32) * (config.precision.scales_dynamically() ? 3 : 1) +
                        (config.precision.has_float8() ? state.back().bytes() : 0);
    plan.ranks = run.step->parts().ranks() * data_ranks(config.parallel, context);
    plan.master_bytes =
        config.precision.has_master() ? elements_held(*run.step) * size_of(Dtype::kF32) : 0;
    plan.gradient_bytes =
        gradient_bytes(*run.step, config.batch.global == rows ? config.precision.param_dtype()
                                                              : config.precision.grad_dtype());
    plan.outside_bytes = held.outside;
    plan.packed_limit = config.memory.packed_bytes().value_or(context.backend->limits.packed_bytes);
    plan.step = run.step->memory();
    plan.batch_bytes = plan.step.inputs - plan.parameter_bytes - plan.frozen_bytes -
                       (plan.optimizer_bytes - plan.optimizer_on_host);
    if (!context.backend->device.empty() || !context.device().is_host()) {
      plan.ahead_bytes = bytes_of(task.batch_types(config.batch.global));
    } else {
      const auto read = [&](int64_t samples) {
        return task.batches_held * bytes_of(task.batch_types(samples));
      };
      plan.read_bytes = read(config.batch.global / data_ranks(config.parallel, context)) +
                        (evaluates ? read(rows * run.loss->batches()) : 0);
    }
    plan.snapshot_bytes = held.copies ? plan.copied_bytes() : 0;
    plan.cost = run.step->cost();
    plan.device = context.backend->device;
    plan.link_bytes = context.backend->rates ? context.backend->rates->link_bytes : 0;
    plan.samples = config.batch.global;
    plan.micro = rows;
    plan.units = {task.units.name, run.step->units()};
    for (const LengthPart& part : run.step->length_parts()) {
      plan.parts.emplace_back(part.samples, part.task.positions.at(0));
    }
    if (run.step->has_parts_of_parameters()) {
      plan.regathers = run.step->regathers();
    }
    return run;
  };
  const int64_t stages = pipeline_ranks(config.parallel, context);
  // The stage that this rank is, or, where there are no ranks, the one that needs most.
  const Regather given = config.parallel.zero.regather;
  const auto with_micro = [&](int64_t rows) {
    PlannedRun most = of_stage(rows, 0, given);
    if (stages > 1 && context.ranks == nullptr) {
      std::vector<int64_t> totals{most.plan.total()};
      double flops = most.plan.cost.flops;
      for (int64_t stage = 1; stage < stages; ++stage) {
        PlannedRun run = of_stage(rows, stage, given);
        totals.push_back(run.plan.total());
        flops += run.plan.cost.flops;
        if (run.plan.total() > most.plan.total()) {
          most = std::move(run);
        }
      }
      most.plan.stage_bytes = std::move(totals);
      most.plan.cost.flops = flops;
    }
    return most;
  };
  const auto finished = [&](PlannedRun run) {
    const int64_t there = this_machine().memory_bytes;
    if (context.backend->device.empty() && run.plan.host_total() > there) {
      throw PlanError(fmt::format(
          "memory.offload puts {} into the host's memory, which has {}; say a smaller batch.micro, "
          "memory.recompute=full, or keep the {} of the optimizer on the device",
          gigabytes(run.plan.host_total()), gigabytes(there),
          gigabytes(run.plan.optimizer_on_host)));
    }
    if (given == Regather::kAuto && run.plan.regathers && stages == 1) {
      PlannedRun keeping = of_stage(run.plan.micro, 0, Regather::kNever);
      if (keeping.plan.total() <= limit) {
        run = std::move(keeping);
      }
    }
    const int64_t copied = run.plan.copied_bytes();
    if (config.checkpoint.async.is_word() && run.plan.total() + copied <= limit) {
      run.plan.snapshot_bytes = copied;
    }
    if (config.run.execution == Execution::kEager) {
      TrainConfig eager = config;
      eager.parallel.zero.regather =
          run.plan.regathers.value_or(false) ? Regather::kAlways : Regather::kNever;
      run.step = std::make_unique<StepProgram>(task, eager, run.plan.micro, context);
      run.loss = evaluates ? std::make_unique<LossProgram>(task, config, run.plan.micro, context,
                                                           run.step->shards_of_weights())
                           : nullptr;
    }
    return run;
  };
  const int64_t copies = config.parallel.copies;
  const auto own = read_own_schedule(real_files(), config.parallel, YamlNode());
  if (micro == 0 && own != nullptr) {
    micro = largest_micro_batch(config, context) / own->micro_batches;
  }
  if (micro > 0 || !config.batch.micro.is_word()) {
    return finished(with_micro(micro > 0 ? micro : *config.batch.micro.value / copies));
  }
  if (!about && stages == 1 && state_and_gradient_bytes(task, config, context) > limit) {
    return finished(with_micro(1));
  }
  const int64_t mine = most_in_micro_batch(task, config, data_ranks(config.parallel, context));
  std::vector<int64_t> choices = divisors(mine);
  std::erase_if(choices, [&](int64_t rows) { return mine / rows < stages; });
  ThreadPool pool(context.ranks == nullptr ? std::min(1, context.num_threads() - 1) : 0);
  const auto largest_of = [&](std::span<const int64_t> sizes) {
    if (about) {
      auto [i, above] = largest_that_fits(sizes, limit, pool, about);
      if (above && *above - limit <= limit / kAboutMargin) {
        ++i;
      }
      PlannedRun run = with_micro(sizes[i]);
      while (i > 0 && run.plan.total() > limit) {
        run = with_micro(sizes[--i]);
      }
      return run;
    }
    std::mutex mutex;
    std::map<int64_t, PlannedRun> planned;
    const auto found = largest_that_fits(sizes, limit, pool, [&](int64_t rows) {
      PlannedRun run = with_micro(rows);
      const int64_t total = run.plan.total();
      if (total <= limit || rows == sizes.front()) {
        const std::scoped_lock lock(mutex);
        planned.erase(planned.begin(), planned.lower_bound(rows));  // smaller ones fit, too
        planned.emplace(rows, std::move(run));
      }
      return total;
    });
    return std::move(planned.at(sizes[found.first]));
  };
  // Memory grows with the micro-batch among those of whole groups of samples, and not from parts of groups to them.
  const auto parts = std::stable_partition(choices.begin(), choices.end(), [&](int64_t rows) {
    return rows % task.samples_together == 0;
  });
  const std::span<const int64_t> whole(choices.begin(), parts);
  const std::span<const int64_t> others(parts, choices.end());
  if (!whole.empty()) {
    PlannedRun run = largest_of(whole);
    if (others.empty() || run.plan.total() <= limit) {
      return finished(std::move(run));
    }
  }
  return finished(largest_of(others));
}

}  // namespace mstrain
