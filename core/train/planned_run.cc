#include "core/train/planned_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/base/thread_pool.h"
#include "core/ir/backend.h"
#include "core/train/machine.h"
#include "core/train/numbers.h"

namespace mstrain {
namespace {

int64_t bytes_of(std::span<const TensorType> types) {
  int64_t sum = 0;
  for (const TensorType& type : types) {
    sum += type.bytes();
  }
  return sum;
}

std::string text_of(const Overrides& overrides) {
  return fmt::format("{}", fmt::join(overrides, " "));
}

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
  return bytes_of(state) + gradient_bytes(step, config.precision.param_dtype()) +
         bytes_of(step.frozen_types());
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

// What no program on the device is faster than, by what its makers say it does.
std::string estimate_text(const RunPlan& plan) {
  const double seconds = plan.cost.seconds;
  std::string out = fmt::format(
      "  {:<15}{:.4g} s a step at least, an estimate from the rates of {}: at most {:.4g} "
      "{}s/s, {:.4g} TFLOP/s\n",
      "time", seconds, plan.device, static_cast<double>(plan.units.count) / seconds,
      plan.units.name, plan.cost.flops / seconds / 1e12);
  if (plan.link_bytes > 0) {
    out += fmt::format("  {:<15}{:.4g} s a step for its samples, from the host\n", "link",
                       static_cast<double>(plan.batch_bytes) / plan.link_bytes);
  }
  return out;
}

}  // namespace

int64_t RunPlan::total() const {
  const int64_t beside = evaluates ? evaluation.arena + evaluation.outputs : 0;
  return step.inputs + ahead_bytes + step.outputs + step.arena + beside + whole_bytes +
         outside_bytes + snapshot_bytes;
}

int64_t memory_limit(const MemoryConfig& config, const Context& context) {
  if (!config.limit_gb.is_word()) {
    return static_cast<int64_t>(*config.limit_gb.value * 1e9);
  }
  const int64_t own = context.backend->memory_bytes;
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
    plan.frozen_bytes = bytes_of(run.step->frozen_types());
    const std::span<const TensorType> state(run.step->state_types());
    plan.parameter_bytes = bytes_of(state.first(run.step->stage_parameters().size()));
    plan.optimizer_bytes = bytes_of(state) - plan.parameter_bytes;
    const bool writes = !config.eval.prompts.empty();
    const bool gathers = pipeline_ranks(config.parallel, context) == 1 || writes;
    if (gathers && (run.step->has_parts_of_parameters() || run.step->parts().shares())) {
      for (const ParamSpec& spec : task.parameters) {
        plan.whole_bytes += spec.type.elements() * size_of(config.precision.param_dtype());
      }
      for (const ParamSpec& spec : task.frozen) {
        plan.whole_bytes += spec.type.bytes();
      }
    }
    if (writes && !run.step->has_parts_of_parameters()) {
      plan.whole_bytes += bytes_elsewhere(*run.step);
    }
    // The count of updates; a loss scale, and the count of steps taken with it.
    plan.number_bytes = size_of(Dtype::kI32) * (config.precision.scales_dynamically() ? 3 : 1);
    plan.ranks = run.step->parts().ranks() * data_ranks(config.parallel, context);
    plan.master_bytes =
        config.precision.has_master() ? elements_held(*run.step) * size_of(Dtype::kF32) : 0;
    plan.gradient_bytes =
        gradient_bytes(*run.step, config.batch.global == rows ? config.precision.param_dtype()
                                                              : config.precision.grad_dtype());
    plan.outside_bytes = task.outside_bytes;
    plan.packed_limit = config.memory.packed_bytes().value_or(context.backend->limits.packed_bytes);
    plan.step = run.step->memory();
    plan.batch_bytes =
        plan.step.inputs - plan.parameter_bytes - plan.frozen_bytes - plan.optimizer_bytes;
    if (!context.backend->device.empty() || !context.device().is_host()) {
      plan.ahead_bytes = bytes_of(task.batch_types(config.batch.global));
    }
    plan.snapshot_bytes = config.checkpoint.async.value_or(false) ? plan.copied_bytes() : 0;
    plan.cost = run.step->cost();
    plan.device = context.backend->device;
    plan.link_bytes = context.backend->rates ? context.backend->rates->link_bytes : 0;
    plan.samples = config.batch.global;
    plan.micro = rows;
    plan.units = {task.units.name, config.batch.global * task.units.count};
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
  const int64_t mine = largest_micro_batch(config, context);
  std::vector<int64_t> choices = divisors(mine);
  std::erase_if(choices, [&](int64_t rows) { return mine / rows < stages; });
  ThreadPool pool(context.ranks == nullptr ? std::min(1, context.num_threads() - 1) : 0);
  if (about) {
    constexpr int64_t kSurely = 100;  // further than limit / kSurely from it, `about` is right
    auto [i, above] = largest_that_fits(choices, limit, pool, about);
    if (above && *above - limit <= limit / kSurely) {
      ++i;
    }
    PlannedRun run = with_micro(choices[i]);
    while (i > 0 && run.plan.total() > limit) {
      run = with_micro(choices[--i]);
    }
    return finished(std::move(run));
  }
  std::mutex mutex;
  std::map<int64_t, PlannedRun> planned;
  const auto found = largest_that_fits(choices, limit, pool, [&](int64_t rows) {
    PlannedRun run = with_micro(rows);
    const int64_t total = run.plan.total();
    if (total <= limit || rows == choices.front()) {
      const std::scoped_lock lock(mutex);
      planned.erase(planned.begin(), planned.lower_bound(rows));  // smaller ones fit, too
      planned.emplace(rows, std::move(run));
    }
    return total;
  });
  return finished(std::move(planned.at(choices[found.first])));
}

std::string plan_text(const PlannedRun& run) {
  if (run.step->program() == nullptr) {
    throw ConfigError(
        "run.execution: eager runs operation by operation, without a plan; say graph");
  }
  std::string text = "== step\n" + run.step->text([](const Program& it) { return it.describe(); });
  if (run.loss != nullptr) {
    text += "\n== evaluation\n" + run.loss->text([](const Program& it) { return it.describe(); });
  }
  return text;
}

std::string fusion_text(const PlannedRun& run) {
  std::string text = "== step\n" + run.step->text([](const Program& it) { return it.fusion(); });
  if (run.loss != nullptr) {
    text += "\n== evaluation\n" + run.loss->text([](const Program& it) { return it.fusion(); });
  }
  return text;
}

std::string describe(const RunPlan& plan, const TrainConfig& config, int64_t limit) {
  std::string out = fmt::format(
      "{}: {} parameters{}\n", config.run.name, grouped(plan.parameters),
      plan.frozen > 0 ? fmt::format(" are trained, {} stay as they are", grouped(plan.frozen))
                      : "");
  const auto line = [&](std::string_view name, const std::string& value, std::string_view note) {
    out += note.empty() ? fmt::format("  {:<15}{}\n", name, value)
                        : fmt::format("  {:<15}{}  {}\n", name, value, note);
  };
  const int64_t micro_batches = plan.samples / plan.micro;
  if (plan.ranks > 1) {
    line("ranks", fmt::format("{} share a step; what follows is for each", plan.ranks), "");
  }
  if (plan.regathers) {
    line("gathers",
         *plan.regathers ? "parameters, forward and again backward" : "parameters, forward",
         *plan.regathers ? "(parallel.zero.regather)"
                         : "and kept for the backward pass (parallel.zero.regather)");
  }
  if (!plan.stage_bytes.empty()) {
    std::vector<std::string> each;
    for (const int64_t bytes : plan.stage_bytes) {
      each.push_back(gigabytes(bytes));
    }
    line("stages",
         fmt::format("{}, from the first on; what follows is for the largest",
                     fmt::join(each, ", ")),
         "");
  }
  line("step",
       fmt::format(
           "{}{} {}s, in {} micro-batch{} of {}{}",
           plan.units.count == plan.samples ? ""
                                            : fmt::format("{} samples, ", grouped(plan.samples)),
           grouped(plan.units.count), plan.units.name, grouped(micro_batches),
           micro_batches == 1 ? "" : "es", grouped(plan.micro),
           config.parallel.copies == 1 ? ""
                                       : fmt::format(", {} side by side", config.parallel.copies)),
       "");
  line("FLOPs",
       fmt::format("{:.4g} per {}, {:.4g} per step",
                   plan.cost.flops / static_cast<double>(plan.units.count), plan.units.name,
                   plan.cost.flops),
       "");
  if (plan.cost.seconds > 0) {
    out += estimate_text(plan);
  }
  const auto each = [&](int64_t total) {
    return static_cast<double>(total) / static_cast<double>(plan.parameters);
  };
  line("per parameter",
       fmt::format("{:.2f} bytes: {:.2f} parameter, {:.2f} gradient, {:.2f} master, {:.2f} moments",
                   each(plan.parameter_bytes + plan.gradient_bytes + plan.optimizer_bytes -
                        plan.number_bytes),
                   each(plan.parameter_bytes), each(plan.gradient_bytes), each(plan.master_bytes),
                   each(plan.optimizer_bytes - plan.number_bytes - plan.master_bytes)),
       "");
  out += "memory, in bytes\n";
  const auto bytes = [&](std::string_view name, int64_t value, std::string_view note) {
    line(name, fmt::format("{:>16} {:>10}", grouped(value), gigabytes(value)), note);
  };
  const ProgramMemory& step = plan.step;
  bytes("parameters", plan.parameter_bytes, "");
  if (plan.frozen > 0) {
    bytes("frozen", plan.frozen_bytes, "parameters that stay as they are");
  }
  bytes("optimizer", plan.optimizer_bytes, "");
  bytes("batch", plan.batch_bytes + plan.ahead_bytes + step.outputs,
        plan.ahead_bytes > 0 ? "samples of two steps, constants and results"
                             : "samples, constants and results");
  bytes("arena", step.arena, "one block for a step; in it, at most at once:");
  bytes("  gradients", step.gradients, "");
  bytes("  activations", step.saved, "kept for the backward pass");
  bytes("  transient", step.transient, "used and gone");
  bytes("  workspace", step.workspace, "of kernels");
  if (plan.evaluates) {
    bytes("evaluation", plan.evaluation.arena + plan.evaluation.outputs, "arena of its own");
  }
  if (plan.whole_bytes > 0) {
    bytes("weights", plan.whole_bytes,
          plan.stage_bytes.empty() ? "whole, at the end" : "of other stages, to write samples");
  }
  if (plan.outside_bytes > 0) {
    bytes("tables", plan.outside_bytes, "rows in memory, with what is kept for them");
  }
  if (plan.snapshot_bytes > 0) {
    bytes("snapshot", plan.snapshot_bytes, "copy of the state, while a checkpoint is written");
  }
  bytes("total", plan.total(),
        fmt::format("of {} (memory.limit_gb: {})", gigabytes(limit),
                    !config.memory.limit_gb.is_word() ? "given"
                    : plan.device.empty()             ? "auto, this machine's"
                                                      : "auto, the device's"));
  if (!plan.device.empty()) {
    out += fmt::format(
        "planned for {}, {}, by its description: workspaces of its kernels do not count\n",
        config.run.device == "auto" ? "cuda" : config.run.device, plan.device);
  }
  if (config.run.execution == Execution::kEager) {
    out += "run.execution is eager: it allocates as it goes, which is more than this plan\n";
  }
  return out;
}

std::string describe(std::span<const Alternative> alternatives, const RunPlan& base) {
  if (alternatives.empty()) {
    return "";
  }
  std::string out =
      fmt::format("choices, against this plan{}\n",
                  alternatives[0].exact ? "" : ", about, as plans of fewer blocks tell");
  size_t width = 0;
  for (const Alternative& it : alternatives) {
    width = std::max(width, text_of(it.overrides).size());
  }
  for (const auto& [overrides, plan, exact] : alternatives) {
    // Whether a checkpoint is copied follows from what is left: it is no part of what the choice itself saves.
    int64_t saved = base.total() - plan.total();
    std::string note;
    if ((plan.snapshot_bytes > 0) != (base.snapshot_bytes > 0)) {
      saved += plan.snapshot_bytes - base.snapshot_bytes;
      note = plan.snapshot_bytes > 0 ? fmt::format("; leaves room for the {} of checkpoint.async",
                                                   gigabytes(plan.snapshot_bytes))
                                     : "; leaves no room for checkpoint.async";
    }
    const std::string bytes = exact ? fmt::format(" {:>15}", grouped(std::abs(saved))) : "";
    const double added = plan.cost.flops - base.cost.flops;
    out += fmt::format("  {:<{}}   {}{} {:>10}, {} {:.4g} FLOPs {} a step ({:.2f} %){}\n",
                       text_of(overrides), width, saved < 0 ? "takes" : "saves", bytes,
                       gigabytes(std::abs(saved)), added < 0 ? "saves" : "adds", std::abs(added),
                       added < 0 ? "of" : "to", 100 * std::abs(added) / base.cost.flops, note);
  }
  return out;
}

std::vector<Overrides> leaner_precisions(const PrecisionConfig& config) {
  std::vector<Overrides> out;
  Overrides changes;
  const auto change = [&](bool already, const char* to) {
    if (!already) {
      changes.emplace_back(to);
    }
  };
  const auto offer = [&] {
    if (!changes.empty() && (out.empty() || out.back() != changes)) {
      out.push_back(changes);
    }
  };
  change(config.moments == MomentType::kInt8, "precision.moments=int8");
  offer();
  const bool fp16 = config.params == FloatType::kFp16;  // whose weights need a master
  change(config.params != FloatType::kFp32, "precision.params=bf16");
  change(config.grads != FloatType::kFp32, fp16 ? "precision.grads=fp16" : "precision.grads=bf16");
  offer();
  change(fp16 || config.master == MasterType::kNone, "precision.master=none");
  offer();
  return out;
}

RunPlan extrapolated(const RunPlan& with_few, int64_t few, const RunPlan& with_more, int64_t more,
                     int64_t blocks) {
  RunPlan plan = with_more;
  const auto extend = [&](auto member) {
    const auto& from = member(with_few);
    auto& to = member(plan);
    to += (to - from) / (more - few) * (blocks - more);
  };
  for (int64_t RunPlan::*bytes :
       {&RunPlan::parameters, &RunPlan::frozen, &RunPlan::parameter_bytes, &RunPlan::frozen_bytes,
        &RunPlan::optimizer_bytes, &RunPlan::master_bytes, &RunPlan::gradient_bytes,
        &RunPlan::batch_bytes, &RunPlan::ahead_bytes, &RunPlan::whole_bytes,
        &RunPlan::snapshot_bytes}) {
    extend([=](auto& of) -> auto& { return of.*bytes; });
  }
  for (ProgramMemory RunPlan::*program : {&RunPlan::step, &RunPlan::evaluation}) {
    // Packed weights grow with the blocks until they meet their limit: the rest is what grows on.
    ProgramMemory& to = plan.*program;
    ProgramMemory from = with_few.*program;
    const int64_t packed = to.packed;
    const int64_t grown = packed - from.packed;
    for (ProgramMemory* it : {&from, &to}) {
      it->arena -= it->packed;
      it->workspace -= it->packed;
    }
    if (grown > 0 && packed + grown <= plan.packed_limit) {
      to.packed = std::min(plan.packed_limit, packed + grown / (more - few) * (blocks - more));
    }
    for (int64_t ProgramMemory::*bytes :
         {&ProgramMemory::inputs, &ProgramMemory::outputs, &ProgramMemory::arena,
          &ProgramMemory::gradients, &ProgramMemory::saved, &ProgramMemory::transient,
          &ProgramMemory::workspace}) {
      to.*bytes += (to.*bytes - from.*bytes) / (more - few) * (blocks - more);
    }
    to.arena += to.packed;
    to.workspace += to.packed;
  }
  extend([](auto& of) -> auto& { return of.cost.flops; });
  extend([](auto& of) -> auto& { return of.cost.bytes; });
  extend([](auto& of) -> auto& { return of.cost.kernels; });
  extend([](auto& of) -> auto& { return of.cost.seconds; });
  return plan;
}

Changes fitting_changes(const std::vector<std::vector<Overrides>>& candidates,
                        const PlanWith& plan_with, int64_t limit) {
  Changes out;
  const auto fits = [&](const Overrides& overrides) {
    Alternative made{overrides, plan_with(overrides)};
    if (!out.least || made.plan.total() < out.least->plan.total()) {
      out.least = made;
    }
    return made.plan.total() <= limit ? std::optional(std::move(made)) : std::nullopt;
  };
  for (const std::vector<Overrides>& kind : candidates) {
    if (kind.empty() || out.fitting.size() == 3) {
      continue;
    }
    // Memory falls along a kind: the mildest that fits lies between `too_mild` and `enough`.
    std::optional<Alternative> mildest = fits(kind.back());
    int64_t too_mild = -1;
    auto enough = static_cast<int64_t>(kind.size()) - 1;
    while (mildest && enough - too_mild > 1) {
      const int64_t middle = (too_mild + enough) / 2;
      if (auto fitting = fits(kind[static_cast<size_t>(middle)])) {
        mildest = std::move(fitting);
        enough = middle;
      } else {
        too_mild = middle;
      }
    }
    if (mildest) {
      out.fitting.push_back(std::move(*mildest));
    }
  }
  return out;
}

std::string refusal(const RunPlan& plan, int64_t limit, const Changes& changes) {
  std::string out = fmt::format("the plan needs {}, but {} are there (memory.limit_gb{}{})",
                                gigabytes(plan.total()), gigabytes(limit),
                                plan.device.empty() ? "" : "; ", plan.device);
  if (changes.fitting.empty()) {
    const int64_t least = changes.least ? changes.least->plan.total() : plan.total();
    out += fmt::format(
        "; no batch, recomputation, precision or sequence makes it fit: it needs a {} with {} "
        "or a smaller model",
        plan.device.empty() ? "machine" : "device", gigabytes(least));
    if (changes.least) {
      out += fmt::format(" ({})", text_of(changes.least->overrides));
    }
    constexpr int64_t kDevice = 80'000'000'000;  // bytes of one that many clusters have
    return out + fmt::format(
                     "\nmany devices can share it, {} of 80 GB at least; mstrain plan "
                     "--cluster FILE says how, and how fast it is",
                     (plan.least() + kDevice - 1) / kDevice);
  }
  out += "; what would fit:";
  for (const Alternative& change : changes.fitting) {
    out += fmt::format("\n  {}   ({}{})", text_of(change.overrides), change.exact ? "" : "about ",
                       gigabytes(change.plan.total()));
  }
  return out;
}

}  // namespace mstrain
