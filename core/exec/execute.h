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
    Buffer holds;  // of `while`: where the host reads whether its condition holds
  };
  List inputs, outputs;                      // of a step: room for the most that any has
  List packs;                                // of the plan
  std::vector<std::unique_ptr<Loop>> loops;  // by step; null where it is none
  std::vector<Event>
      begun;  // by step, where any begins something: complete where nothing is on its way
};

// What runs a plan: a queue, which the caller has to itself, and whom to tell how long each kernel took; null: nobody.
struct PlanRun {
  Queue& queue;
  std::vector<KernelTime>* times = nullptr;
};

// Of a run: plan.arena_bytes of the device's memory and plan.host_arena_bytes of the host's, aligned to 64 bytes.
struct Arenas {
  std::byte* device;
  std::byte* host = nullptr;
};

// Gives every step, in order, to the queue of `run`; plan and times live until it has run them. `inputs` and `outputs` are
// the addresses, as kernels see them, of dense tensors as the plan declares them (an output that takes over an input has
// the same address). Waits for nothing but the conditions of loops.
void execute(const Plan& plan, std::span<void* const> inputs, std::span<void* const> outputs,
             const Arenas& arenas, PlanAddresses& addresses, const PlanRun& run);

// Calls f in its turn of the queue; at once where that calls nothing later.
template <class F>
void in_turn(Queue& queue, F f) {
  if (queue.calls_later()) {
    queue.submit(std::move(f));
  } else {
    f();
  }
}

// Where kernels find element (0, …, 0).
void* kernel_address(const Tensor& x);

// Throws where `x` lies on another device, which kernels of `device` cannot read.
void check_device(const Tensor& x, const Device& device);

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
