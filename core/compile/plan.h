// A program as data: a fixed list of kernel calls on fixed memory. Made once, run any number of times.
#pragma once

#include "core/compile/passes.h"
#include "core/ir/backend.h"
#include "core/ir/tensor.h"
#include "core/tensor/jit.h"

namespace mstrain {

// Memory that steps read and write. Lives from step `first` to step `last`, both included.
struct PlanBuffer {
  enum class Kind : uint8_t { kArena, kInput, kOutput };
  enum class Use : uint8_t { kTransient, kSaved, kGradient, kWorkspace };
  Kind kind = Kind::kArena;
  Use use = Use::kTransient;
  int64_t bytes = 0;
  int index = 0;  // of the program's input or output
  int first = 0, last = -1;
  int64_t offset = 0;  // in the arena
  bool host = false;   // in the host's memory, and its arena
};

// Where a step finds a tensor.
struct PlanView {
  int buffer = -1;
  int64_t offset = 0;  // bytes from the buffer's start to element (0, …, 0)
  ViewType view;
};

// A packed form of one of a plan's inputs (see PackedInput), for all steps that ask for it.
struct PlanPack {
  int input = -1;                        // of the plan
  int64_t offset = 0;                    // bytes from its element (0, …, 0)
  ViewType view;                         // what is packed
  int64_t place = 0;                     // bytes from the start of the packed memory
  std::shared_ptr<const Kernel> kernel;  // the first that asks for it
};

struct Plan;

// A loop's programs. Carries live in the memory of the step's results; those that the body does not update in place
// are written to the workspace and copied back.
struct LoopPlan {
  std::unique_ptr<Plan> condition;  // null for scan
  std::unique_ptr<Plan> body;
  int carries = 0, constants = 0;
  int64_t length = 0;
  bool reverse = false, keep_carries = false;
  std::vector<std::shared_ptr<const Kernel>> load;  // each carry's initial value into its place
  std::vector<int64_t> staging_offsets;             // in the workspace; -1: updated in place
  int64_t condition_offset = 0, condition_arena = 0, body_arena = 0;  // in the workspace
  int64_t packed =
      0;  // in the workspace: what the body's steps share, made before the first of them
};

struct PlanStep {
  const OpDef* op = nullptr;
  std::string name;  // for people: the operation's, or what was fused
  Attrs attrs;
  Place place;
  SourceLocation where;
  std::vector<PlanView> inputs;
  std::vector<PlanView> outputs;
  int workspace = -1;       // buffer
  int host_workspace = -1;  // of a loop: the host's arena of its body
  int pack = -1;            // of the plan's
  Cost cost;
  std::shared_ptr<const Kernel> kernel;       // null for loops
  const Backend* backend = nullptr;           // whose kernel it is
  std::vector<std::pair<int, int>> in_place;  // what the kernel allows
  std::unique_ptr<LoopPlan> loop;
  // Two halves of what others work on meanwhile (core/ir/halves.h): the first has inputs and outputs, the second is where
  // something first needs the results. What the first names is in use from one to the other.
  bool begins = false;
  int waits_for = -1;  // the step that began it
};

struct Plan {
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  std::vector<int> inputs;   // buffer of each program input
  std::vector<int> outputs;  // buffer of each program output
  std::vector<TensorType> input_types, output_types;
  std::vector<int> output_alias;  // program input whose memory an output takes over, or -1
  std::vector<PlanPack> packs;    // of the inputs that a loop's body keeps
  int64_t packed_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t host_arena_bytes = 0;
  ProgramMemory memory;
  ProgramCost cost;

  // Bytes from the arena's start, for a buffer that lies in it.
  int64_t arena_offset(int buffer) const { return buffers[static_cast<size_t>(buffer)].offset; }
};

struct PlanOptions {
  const Backend* backend = default_backend();
  int threads = 1;
  int level = 2;
  FuseOptions fusion;
  std::vector<bool> donated;    // by input
  bool pair_donations = false;  // output i may only take over input i (loops)
  int64_t loss_chunks = kAutoChunks;
  std::optional<int64_t> packed_bytes = {};  // see CompileOptions
  std::vector<bool> kept = {};   // by input: the same in the many runs of a loop, which keeps packs
  bool batch_invariant = false;  // see Context
  std::optional<int64_t> offloaded_bytes = {};  // see CompileOptions
};

// The plan of an optimised graph. Allocates nothing but the plan.
Plan make_plan(const Graph& graph, const PlanOptions& options);

// Finds when each buffer lives, and lets results take the place of operands and of donated inputs that are not read again.
void share_memory(Plan& plan, const PlanOptions& options);

// Gives every buffer of the arenas an offset such that no two that live at the same time overlap; fills their sizes and memory.
void plan_memory(Plan& plan);

// What a plan amounts to, one figure a line: FLOPs, memory, steps of each operation, and a digest of all inputs, outputs,
// buffers and steps. The same on every machine: kernels' workspaces, which depend on the processor and its threads, and
// offsets, which depend on workspaces, do not count.
std::string summary(const Plan& plan);

// The summary, then every input, output, buffer and step with its operation, attributes, types, memory, cost and scope,
// a line each; the plans of a loop stand indented below it. Equal plans give equal texts in every process.
std::string describe(const Plan& plan);

inline constexpr int64_t kPlanAlignment = 64;
constexpr int64_t aligned(int64_t bytes) {
  return (bytes + kPlanAlignment - 1) / kPlanAlignment * kPlanAlignment;
}

}  // namespace mstrain
