// What a run takes, known before it starts: memory by category as the executor will allocate it, and arithmetic.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/train/loss_program.h"
#include "core/train/step.h"

namespace mstrain {

// Bytes, unless said otherwise.
struct RunPlan {
  int64_t ranks =
      1;  // that share a batch: figures are those of one of them, but for whole steps and models
  // Of each stage of a pipeline that is planned without ranks, but for snapshots; all other figures are of the largest.
  std::vector<int64_t> stage_bytes;
  int64_t parameters = 0;  // elements, of the trained ones
  int64_t frozen = 0;      // numbers that no step changes
  int64_t frozen_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t master_bytes = 0;       // of these
  int64_t number_bytes = 0;       // of these: what is stored as numbers in state.json
  int64_t optimizer_on_host = 0;  // of these: in the host's memory, beside the device's
  int64_t gradient_bytes = 0;     // of all gradients, were they in memory at once
  int64_t batch_bytes = 0;        // of a step's samples, and constants
  int64_t ahead_bytes = 0;        // of the next step's samples, which come while a device computes
  // Of what streams of data have read ahead, of training and of evaluations, where the host's memory is what the plan is of.
  int64_t read_bytes = 0;
  ProgramMemory step;  // .inputs are parameters, frozen ones, optimizer but for that, and batch
  ProgramMemory evaluation;  // .arena and .outputs lie beside those of the step
  bool evaluates = false;
  int64_t whole_bytes =
      0;  // weights put together, where ranks keep parts or stages and something asks for them
  int64_t packed_limit = 0;    // of step.packed, which takes what there is up to it
  int64_t outside_bytes = 0;   // of tables that steps look rows up in, and of reward models
  int64_t snapshot_bytes = 0;  // copy of parameters and optimizer that a checkpoint is written from
  ProgramCost cost;            // of a step
  std::string device;          // that it is planned for, where it has memory of its own
  double link_bytes = 0;       // a second from the host to that device; 0: not known
  int64_t samples = 0;         // in a step
  int64_t micro = 0;           // samples of a micro-batch; of each of parallel.copies
  Units units;                 // in a step
  // Parts of its batch that are computed in turn: samples, and the positions that their rows have. None: all rows are alike.
  std::vector<std::pair<int64_t, int64_t>> parts;
  // Whether the backward pass gathers parameters anew; none: they are not in parts.
  std::optional<bool> regathers;

  int64_t total() const;  // on a device, of its memory
  // In the host's memory beside that: what waits there (memory.offload).
  int64_t host_total() const { return step.host; }
  int64_t activations_on_host() const { return step.host - optimizer_on_host; }
  // Of what a checkpoint is copied from: all but what are numbers in state.json.
  int64_t copied_bytes() const { return parameter_bytes + optimizer_bytes - number_bytes; }
  // What no smaller batch, recomputation or shorter sequence avoids, in these precisions.
  int64_t least() const {
    return parameter_bytes + frozen_bytes + optimizer_bytes - optimizer_on_host + gradient_bytes;
  }
};

// The programs of a run, and their plan.
struct PlannedRun {
  std::unique_ptr<StepProgram> step;
  std::unique_ptr<LossProgram> loss;  // null where nothing is held out
  RunPlan plan;
};

// The most samples that a micro-batch can have, which all others divide: the step's, shared by ranks and copies.
int64_t largest_micro_batch(const TrainConfig& config, const Context& context);

// Compiles for micro-batches of `micro`; 0 stands for batch.micro, which parallel.copies share, where `auto` is the largest size whose
// plan fits into `limit` bytes, or 1. Gathered parameters that parallel.zero.regather leaves open are kept where the plan then still
// fits, and then a snapshot that checkpoint.async leaves open comes in where it does.
// Allocates nothing. In eager execution the figures are those of the graph at O0. `about`, where there is one, says within 1 % what
// a plan would: `auto` then looks for its size by it, and makes the plans of none but those that may be it.
using TotalOfMicro = std::function<int64_t(int64_t micro)>;
inline constexpr int64_t kAboutMargin = 100;  // nearer to a limit than its share, only a plan tells
PlannedRun plan_run(const TrainTask& task, const TrainConfig& config, const Context& context,
                    int64_t limit, bool evaluates, int64_t micro = 0,
                    const TotalOfMicro& about = nullptr);

// The plans of its programs, step by step (see core/compile/plan.h). Throws ConfigError for eager execution: it has none.
std::string plan_text(const PlannedRun& run);

// What its programs fuse and what not, and why, where fusion.explain asks for it.
std::string fusion_text(const PlannedRun& run);

// memory.limit_gb in bytes; `auto` is the memory of the context's device, or the machine's where it has none of its own.
int64_t memory_limit(const MemoryConfig& config, const Context& context);

// A table for people.
std::string describe(const RunPlan& plan, const TrainConfig& config, int64_t limit);

// Choices as the command line has them, "key=value", and the plan that they lead to.
using Overrides = std::vector<std::string>;
struct Alternative {
  Overrides overrides;
  RunPlan plan;
  bool exact = true;  // to the byte, not about
};
// What each saves and adds against `base`, a line each.
std::string describe(std::span<const Alternative> alternatives, const RunPlan& base);

// Leaner states than those of `config`, from mild to strong: moments of 8 bits, then parameters and gradients of 16, then
// no master.
std::vector<Overrides> leaner_precisions(const PrecisionConfig& config);

// A model is so many equal blocks and something more: the plan for `blocks` of them from those for `few` and `more`.
// States, samples and arithmetic are exact; of the arena, small gaps between what lies in it are guessed.
RunPlan extrapolated(const RunPlan& with_few, int64_t few, const RunPlan& with_more, int64_t more,
                     int64_t blocks);

// At most three changes that fit, with their plans, and the one that needs least of all that were tried.
struct Changes {
  std::vector<Alternative> fitting;
  std::optional<Alternative> least;
};
using PlanWith = std::function<RunPlan(const Overrides& overrides)>;
// `candidates`: kinds of changes, those of a kind from mild to strong. Of each kind the mildest that fits is taken.
Changes fitting_changes(const std::vector<std::vector<Overrides>>& candidates,
                        const PlanWith& plan_with, int64_t limit);

// What to say when a plan does not fit: the figures, then the changes that would fit, or what it needs.
std::string refusal(const RunPlan& plan, int64_t limit, const Changes& changes);

}  // namespace mstrain
