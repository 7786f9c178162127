// Runs plans, and single operations in eager mode.
#pragma once

#include "core/compile/plan.h"

namespace mstrain {

// The addresses that a run of a plan works with, of the plan and of the loops within: made once, so that runs allocate
// nothing. Serves one run at a time.
class PlanAddresses {
 public:
  explicit PlanAddresses(const Plan& plan);

  using List = std::vector<void*>;
  struct Loop {
    List inputs, outputs;  // of the body
    std::unique_ptr<PlanAddresses> condition, body;
  };
  List inputs, outputs;                      // of a step: room for the most that any has
  List packs;                                // of the plan
  std::vector<std::unique_ptr<Loop>> loops;  // by step; null where it is none
};

// Runs every step in order. `inputs` and `outputs` are the addresses of dense tensors as the plan declares them (an
// output that takes over an input has the same address); `arena` has plan.arena_bytes, aligned to 64 bytes. Appends
// every kernel to `times` where it is not null.
void execute(const Plan& plan, std::span<void* const> inputs, std::span<void* const> outputs,
             std::byte* arena, PlanAddresses& addresses, std::vector<KernelTime>* times = nullptr);

// Runs one operation on concrete tensors in the current context; shares memory where strides suffice.
Tensors evaluate_eagerly(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                         const Types& outputs);

// Compiles for the current context (see tensor/jit.h).
std::unique_ptr<Program> compile_program(const Graph& graph, const CompileOptions& options);

// A program's plan, for tests and reports; throws for programs of other compilers.
const Plan& plan_of(const Program& program);

// Installs eager evaluation and the compiler; once, at start-up.
void install_execution();

}  // namespace mstrain
