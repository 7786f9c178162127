// What planned runs are told as, for people.
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "core/train/parallel_config.h"
#include "core/train/planned_run.h"
#include "core/train/run_device.h"

namespace mstrain {
namespace {

std::string text_of(const Overrides& overrides) {
  return fmt::format("{}", fmt::join(overrides, " "));
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
  if (plan.link_bytes > 0 && plan.cost.link_bytes > 0) {
    out += fmt::format(
        "  {:<15}{:.4g} s a step for what waits in the host's memory, half of it either way\n", "",
        plan.cost.link_bytes / 2 / plan.link_bytes);
  }
  return out;
}

}  // namespace

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
  if (!plan.parts.empty()) {
    std::vector<std::string> each;
    for (const auto& [samples, positions] : plan.parts) {
      each.push_back(fmt::format("{} of {}", grouped(samples), grouped(positions)));
    }
    line("rows", fmt::format("{} positions", fmt::join(each, ", ")), "(by the lengths of samples)");
  }
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
  bytes("optimizer", plan.optimizer_bytes - plan.optimizer_on_host, "");
  bytes("batch", plan.batch_bytes + plan.ahead_bytes + step.outputs,
        plan.ahead_bytes > 0 ? "samples of two steps, constants and results"
                             : "samples, constants and results");
  if (plan.read_bytes > 0) {
    bytes("read ahead", plan.read_bytes, "batches, while others are computed");
  }
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
          plan.stage_bytes.empty() ? "whole, where something asks for them"
                                   : "of other stages, where something asks for them");
  }
  if (plan.outside_bytes > 0) {
    bytes(
        "outside", plan.outside_bytes,
        "of the step: tables' rows with what is kept for them, reward models, writing of answers");
  }
  if (plan.snapshot_bytes > 0) {
    bytes("snapshot", plan.snapshot_bytes, "copy of the state, while a checkpoint is written");
  }
  bytes("total", plan.total(),
        fmt::format("of {} (memory.limit_gb: {})", gigabytes(limit),
                    !config.memory.limit_gb.is_word() ? "given"
                    : plan.device.empty()             ? "auto, this machine's"
                                                      : "auto, the device's"));
  if (plan.host_total() > 0) {
    out += "memory of the host beside it, in bytes\n";
    bytes("optimizer", plan.optimizer_on_host, "memory.offload.optimizer");
    bytes("activations", plan.activations_on_host(), "memory.offload.activations");
    bytes("in all", plan.host_total(), "pinned");
  }
  if (!plan.device.empty()) {
    out += fmt::format("planned for {}, {}, by its description\n",
                       config.run.device == "auto" ? "cuda" : config.run.device, plan.device);
  }
  const Backend* const backend = find_backend(
      plan.device.empty() || config.run.device != "auto" ? device_of(config.run) : "cuda");
  if (planned_ranks(config.parallel) > 1 && backend != nullptr && backend->links != nullptr) {
    out += fmt::format("exchanges between ranks: {}; what it takes of the device is not counted\n",
                       plan.device.empty() ? backend->links() : "as by NCCL");
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
