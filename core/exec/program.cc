#include <algorithm>
#include <array>

#include "core/comm/mesh.h"
#include "core/compile/fetch_ahead.h"
#include "core/compile/fuse.h"
#include "core/exec/captured_runs.h"
#include "core/ops/shape.h"
#include "core/runtime/host_memory.h"
#include "core/tensor/host.h"
#include "core/tensor/host_memory.h"

namespace mstrain {
namespace {

bool works_among_ranks(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& step) {
    return step.op->among_ranks ||
           (step.loop != nullptr &&
            (works_among_ranks(*step.loop->body) ||
             (step.loop->condition != nullptr && works_among_ranks(*step.loop->condition))));
  });
}

class PlannedProgram : public Program {
 public:
  PlannedProgram(Plan plan, const Context& context, bool keeps_results, std::string fusion)
      : plan_(std::move(plan)),
        context_(context),
        ranks_(works_among_ranks(plan_) ? context.ranks.get() : nullptr),
        addresses_(plan_),
        in_(plan_.inputs.size()),
        out_(plan_.outputs.size()),
        results_(plan_.outputs.size()),
        kept_(keeps_results ? plan_.outputs.size() : 0),
        fusion_(std::move(fusion)) {
    if (has_host_memory(context_.backend)) {
      captured_.emplace(plan_);
    }
  }
  // Its kernels and addresses are what queues call.
  ~PlannedProgram() override { end_.settle(); }
  PlannedProgram(const PlannedProgram&) = delete;
  PlannedProgram& operator=(const PlannedProgram&) = delete;

  // The results return in the list that brought the arguments: where they are no more than those, nothing is allocated.
  Tensors run(Tensors inputs) override {
    const ContextScope scope(context_);
    check(inputs.size() == plan_.inputs.size(), "a program of {} inputs was given {}",
          plan_.inputs.size(), inputs.size());
    auto* const capturing =
        slot_bytes() > 0
            ? dynamic_cast<CapturingQueue*>(&context_.device().queue(Device::Use::kKernels))
            : nullptr;
    const int64_t slots = capturing == nullptr ? 0 : slot_bytes();  // behind the arena
    if (!arena_ && plan_.arena_bytes + slots > 0) {
      arena_ = Buffer::allocate(context_.allocator, plan_.arena_bytes + slots);
    }
    if (!host_arena_ && plan_.host_arena_bytes > 0) {
      host_arena_ = Buffer::allocate(host_memory_of(context_.device()), plan_.host_arena_bytes);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!(inputs[i].type() == plan_.input_types[i])) {
        fail("input {} is {}, the program was compiled for {}", i, to_string(inputs[i].type()),
             to_string(plan_.input_types[i]));
      }
      check_device(inputs[i], lies_on_host(plan_.inputs[i])
                                  ? *host_memory_of(context_.device())->device()
                                  : context_.device());
      inputs[i] = dense(inputs[i]);
    }
    const ReleaseOnExit release{results_};
    for (size_t o = 0; o < results_.size(); ++o) {
      const int input = plan_.output_alias[o];
      results_[o] = input >= 0 ? take_over(inputs[static_cast<size_t>(input)]) : output(o);
    }
    Submission work(context_.device());
    for (size_t i = 0; i < inputs.size(); ++i) {
      work.reads(inputs[i].buffer());
      in_[i] = kernel_address(inputs[i]);
    }
    for (size_t o = 0; o < results_.size(); ++o) {
      work.writes(results_[o].buffer());
      out_[o] = kernel_address(results_[o]);
    }
    const auto kernels_find = [&](const Buffer& arena) -> std::byte* {
      if (!arena) {
        return nullptr;
      }
      work.writes(arena);
      return static_cast<std::byte*>(arena.device().kernel_address(arena.data()));
    };
    const Arenas arenas{kernels_find(arena_), kernels_find(host_arena_)};
    in_turn(work.queue(), [backend = context_.backend, threads = context_.num_threads()] {
      backend->prepare_threads(threads);
    });
    if (ranks_ != nullptr) {
      work.queue().wait(ranks_->last_work, false);
    }
    if (capturing != nullptr && times_ == nullptr) {
      captured_->run(plan_, in_, out_, arenas, arenas.device + plan_.arena_bytes, addresses_,
                     *capturing);
    } else if (context_.backend->computes) {
      execute(plan_, in_, out_, arenas, addresses_, {work.queue(), times_});
    }
    end_ = work.finish();
    if (ranks_ != nullptr) {
      ranks_->last_work = end_;
    }
    inputs.clear();
    for (size_t o = 0; o < results_.size(); ++o) {
      Tensor result = std::move(results_[o]);
      // A result that takes over an argument may have another shape of the same size.
      if (!(result.type() == plan_.output_types[o])) {
        result = Tensor(plan_.output_types[o], result.buffer(), result.offset(),
                        contiguous_strides(plan_.output_types[o].shape));
      }
      inputs.push_back(std::move(result));
    }
    return inputs;
  }

  ProgramMemory memory() const override {
    ProgramMemory memory = plan_.memory;
    memory.arena += slot_bytes();
    return memory;
  }
  ProgramCost cost() const override { return plan_.cost; }
  std::string describe() const override { return mstrain::describe(plan_); }
  void profile(std::vector<KernelTime>* times) override {
    end_.settle();
    times_ = times;
  }
  std::string fusion() const override { return fusion_; }
  const Plan& plan() const { return plan_; }

 private:
  // Nothing of a run that fails is held on to, least of all what it was given away.
  struct ReleaseOnExit {
    Tensors& tensors;
    ~ReleaseOnExit() { std::fill(tensors.begin(), tensors.end(), Tensor()); }
  };

  // The argument's memory where nobody else can see it, else a copy.
  static Tensor take_over(Tensor& input) {
    Tensor kept = std::move(input);
    if (!kept.sole_owner()) {
      kept = &kept.buffer().device() == &current_context().device() ? copy(kept) : on_host(kept);
    }
    input = kept;
    return kept;
  }

  int64_t slot_bytes() const { return captured_ ? captured_->slot_bytes() : 0; }
  bool lies_on_host(int buffer) const { return plan_.buffers[static_cast<size_t>(buffer)].host; }

  // Memory for result `o`: that of one of the last two runs which the caller has dropped.
  Tensor output(size_t o) {
    const auto made = [&] {
      return lies_on_host(plan_.outputs[o]) ? uninitialised_in_host_memory(plan_.output_types[o])
                                            : uninitialised(plan_.output_types[o]);
    };
    if (kept_.empty()) {
      return made();
    }
    for (Tensor& last : kept_[o]) {
      if (last.defined() && last.sole_owner()) {
        return last;
      }
    }
    std::swap(kept_[o][0], kept_[o][1]);
    kept_[o][0] = made();
    return kept_[o][0];
  }

  Plan plan_;
  Context context_;
  Ranks* ranks_;  // of the context, where the plan works among them
  Buffer arena_, host_arena_;
  PlanAddresses addresses_;
  std::optional<CapturedRuns> captured_;  // where devices may run it as a whole
  std::vector<void*> in_, out_;
  Tensors results_;  // of the run; empty between runs
  std::vector<std::array<Tensor, 2>> kept_;
  std::string fusion_;
  std::vector<KernelTime>* times_ = nullptr;
  Event end_;  // of the last run
};

}  // namespace

std::unique_ptr<Program> compile_program(const Graph& graph, const CompileOptions& options) {
  const Context& context = current_context();
  FusionLog log;
  const FuseOptions fusion{{options.rules_off.begin(), options.rules_off.end()},
                           options.explain_fusion ? &log : nullptr};
  const GraphPtr optimised = optimise(graph, {options.level, context.backend, fusion,
                                              options.loss_chunks, options.offloaded_bytes});
  PlanOptions plan_options{context.backend, context.num_threads(), options.level, fusion,
                           options.donated};
  plan_options.loss_chunks = options.loss_chunks;
  plan_options.packed_bytes = options.packed_bytes;
  plan_options.batch_invariant = context.batch_invariant;
  plan_options.offloaded_bytes = options.offloaded_bytes;
  Plan plan = make_plan(*optimised, plan_options);
  return std::make_unique<PlannedProgram>(std::move(plan), context, options.keeps_results,
                                          options.explain_fusion ? log.text() : "");
}

const Plan& plan_of(const Program& program) {
  const auto* planned = dynamic_cast<const PlannedProgram*>(&program);
  check(planned != nullptr, "the program has no plan");
  return planned->plan();
}

void install_execution() {
  install_evaluator(evaluate_eagerly);
  install_compiler(compile_program);
}

}  // namespace mstrain
