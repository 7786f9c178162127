#include "core/compile/passes.h"
#include "core/exec/execute.h"
#include "core/exec/threads.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

class PlannedProgram : public Program {
 public:
  PlannedProgram(Plan plan, const Context& context)
      : plan_(std::move(plan)), context_(context), kept_(plan_.outputs.size()) {}

  Tensors run(Tensors inputs) override {
    const ContextScope scope(context_);
    prepare_threads(context_.num_threads());
    check(inputs.size() == plan_.inputs.size(), "a program of {} inputs was given {}",
          plan_.inputs.size(), inputs.size());
    if (!arena_ && plan_.arena_bytes > 0) {
      arena_ = Buffer::allocate(context_.allocator, plan_.arena_bytes);
    }
    std::vector<void*> in(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      check(inputs[i].type() == plan_.input_types[i],
            "input {} is {}, the program was compiled for {}", i, to_string(inputs[i].type()),
            to_string(plan_.input_types[i]));
      inputs[i] = dense(inputs[i]);
    }
    Tensors outputs;
    std::vector<void*> out;
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const int input = plan_.output_alias[o];
      if (input >= 0) {
        outputs.push_back(take_over(inputs[static_cast<size_t>(input)]));
      } else {
        outputs.push_back(output(o));
      }
      out.push_back(outputs.back().data());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      in[i] = inputs[i].data();
    }
    if (context_.backend != Backend::kNull) {
      execute(plan_, in, out, arena_.data(), times_);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      // A result that takes over an argument may have another shape of the same size.
      if (!(outputs[o].type() == plan_.output_types[o])) {
        outputs[o] = Tensor(plan_.output_types[o], outputs[o].buffer(), outputs[o].offset(),
                            contiguous_strides(plan_.output_types[o].shape));
      }
    }
    return outputs;
  }

  ProgramMemory memory() const override { return plan_.memory; }
  ProgramCost cost() const override { return plan_.cost; }
  std::string describe() const override { return mstrain::describe(plan_); }
  void profile(std::vector<KernelTime>* times) override { times_ = times; }
  const Plan& plan() const { return plan_; }

 private:
  // The argument's memory where nobody else can see it, else a copy.
  static Tensor take_over(Tensor& input) {
    Tensor kept = std::move(input);
    if (!kept.sole_owner()) {
      kept = copy(kept);
    }
    input = kept;
    return kept;
  }

  // Memory for result `o`: that of the last run where the caller has dropped it.
  Tensor output(size_t o) {
    Tensor& last = kept_[o];
    if (!last || !last.sole_owner()) {
      last = uninitialised(plan_.output_types[o]);
    }
    return last;
  }

  Plan plan_;
  Context context_;
  Buffer arena_;
  Tensors kept_;
  std::vector<KernelTime>* times_ = nullptr;
};

}  // namespace

std::unique_ptr<Program> compile_program(const Graph& graph, const CompileOptions& options) {
  const Context& context = current_context();
  const GraphPtr optimised = optimise(
      graph,
      {.level = options.level, .backend = context.backend, .loss_chunks = options.loss_chunks});
  const PlanOptions plan_options{.backend = context.backend,
                                 .threads = context.num_threads(),
                                 .level = options.level,
                                 .donated = options.donated,
                                 .loss_chunks = options.loss_chunks};
  return std::make_unique<PlannedProgram>(make_plan(*optimised, plan_options), context);
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
