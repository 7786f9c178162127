#include <map>

#include "core/base/hash.h"
#include "core/compile/plan.h"
#include "core/ir/text.h"

namespace mstrain {
namespace {

using Kind = PlanBuffer::Kind;
using Use = PlanBuffer::Use;

// Kernels' workspaces depend on the processor and its threads, and offsets on workspaces; nothing else does.
enum class Places : uint8_t { kLeftOut, kShown };

const PlanBuffer& buffer_of(const Plan& plan, int id) {
  return plan.buffers[static_cast<size_t>(id)];
}

std::string_view name_of(Use use) {
  switch (use) {
    case Use::kTransient: return "transient";
    case Use::kSaved: return "saved";
    case Use::kGradient: return "gradient";
    case Use::kWorkspace: return "workspace";
  }
  return "";
}

class Printer {
 public:
  Printer(const Plan& plan, Places places, int indent)
      : plan_(plan), places_(places), margin_(static_cast<size_t>(indent), ' '), indent_(indent) {
    number_buffers();
  }

  std::string print() {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      line("input {} {}: {}", i, name(plan_.inputs[i]), to_string(plan_.input_types[i]));
    }
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const int taken = plan_.output_alias[o];
      line("output {} {}: {}{}", o, name(plan_.outputs[o]), to_string(plan_.output_types[o]),
           taken < 0 ? "" : fmt::format(", takes over input {}", taken));
    }
    for (size_t id = 0; id < plan_.buffers.size(); ++id) {
      const PlanBuffer& buffer = plan_.buffers[id];
      if (numbers_[id] >= 0 && buffer.kind == Kind::kArena) {
        line("buffer {}: {}{}, {} bytes, steps {} to {}{}", name(static_cast<int>(id)),
             buffer.host ? "host, " : "", name_of(buffer.use), buffer.bytes, buffer.first,
             buffer.last, place(buffer));
      }
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      print(s, plan_.steps[s]);
    }
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += margin_;
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  // Buffers that steps name, in their order.
  void number_buffers() {
    numbers_.assign(plan_.buffers.size(), -1);
    const auto use = [&](int id) { numbers_[static_cast<size_t>(id)] = 0; };
    for (const auto* ids : {&plan_.inputs, &plan_.outputs}) {
      for (int id : *ids) {
        use(id);
      }
    }
    for (const PlanStep& step : plan_.steps) {
      for (const auto* views : {&step.inputs, &step.outputs}) {
        for (const PlanView& view : *views) {
          use(view.buffer);
        }
      }
    }
    int next = 0;
    for (int& number : numbers_) {
      number = number < 0 ? -1 : next++;
    }
  }

  std::string name(int id) const { return fmt::format("%{}", numbers_[static_cast<size_t>(id)]); }

  std::string place(const PlanBuffer& buffer) const {
    return places_ == Places::kShown && buffer.kind == Kind::kArena
               ? fmt::format(", at {}", buffer.offset)
               : "";
  }

  std::string print(const PlanView& view) const {
    std::string text = name(view.buffer);
    if (view.offset != 0) {
      text += fmt::format("+{}", view.offset);
    }
    text += ' ' + to_string(view.view.type);
    if (!view.view.contiguous()) {
      text += " strides " + to_string(view.view.strides);
    }
    return text;
  }

  std::string print(const std::vector<PlanView>& views) const {
    std::string text;
    for (const PlanView& view : views) {
      text += (text.empty() ? "" : ", ") + print(view);
    }
    return text;
  }

  // Programs are printed below the step: those of a loop as plans, that of a group as it is.
  std::string attributes(const PlanStep& step) const {
    std::string text;
    for (const auto& [name, value] : step.attrs.items()) {
      if (!std::holds_alternative<GraphPtr>(value)) {
        text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_text(value, indent_));
      }
    }
    return text.empty() ? "" : " {" + text + "}";
  }

  void print(size_t number, const PlanStep& step) {
    if (step.waits_for >= 0) {
      line("{} {}, step {}", number, step.name, step.waits_for);
      return;
    }
    std::string machine;  // what differs between machines
    if (step.kernel != nullptr && places_ == Places::kShown) {
      machine = ", " + step.backend->name;
    }
    if (step.workspace >= 0 && places_ == Places::kShown) {
      const PlanBuffer& buffer = buffer_of(plan_, step.workspace);
      machine += fmt::format(", workspace {} bytes{}", buffer.bytes, place(buffer));
    }
    line("{} {}{}{}({}) -> {}; {:.0f} FLOP, {:.0f} bytes{}{}", number, step.begins ? "begin " : "",
         step.name, attributes(step), print(step.inputs), print(step.outputs), step.cost.flops,
         step.cost.bytes, machine,
         step.place.scope.empty() && step.place.part == StepPart::kForward
             ? ""
             : "  @" + to_string(step.place));
    for (const auto& [name, value] : step.attrs.items()) {
      if (step.loop == nullptr && std::holds_alternative<GraphPtr>(value)) {
        line("  {}", to_text(value, indent_ + 2));
      }
    }
    if (step.loop != nullptr) {
      if (step.loop->condition != nullptr) {
        line("  condition");
        text_ += Printer(*step.loop->condition, places_, indent_ + 4).print();
      }
      line("  body");
      text_ += Printer(*step.loop->body, places_, indent_ + 4).print();
    }
  }

  const Plan& plan_;
  Places places_;
  std::string margin_;
  int indent_;
  std::vector<int> numbers_;  // -1: a workspace, or merged into another buffer
  std::string text_;
};

struct Count {
  std::map<std::string_view, int64_t> steps;  // by operation
  double kernels = 0;                         // in a run; of `while`, as if its body ran once
};

void count(const Plan& plan, double runs, Count& out) {
  for (const PlanStep& step : plan.steps) {
    ++out.steps[step.name];
    if (step.loop == nullptr) {
      out.kernels += step.waits_for < 0 ? runs : 0;
      continue;
    }
    if (step.loop->condition != nullptr) {
      count(*step.loop->condition, runs, out);
      count(*step.loop->body, runs, out);
    } else {
      count(*step.loop->body, runs * static_cast<double>(step.loop->length), out);
    }
  }
}

// The arena if no kernel needed a workspace.
int64_t bare_arena(const Plan& plan) {
  Plan bare;
  bare.buffers = plan.buffers;
  bare.steps.resize(plan.steps.size());
  for (const PlanStep& step : plan.steps) {
    if (step.workspace < 0) {
      continue;
    }
    int64_t& bytes = bare.buffers[static_cast<size_t>(step.workspace)].bytes;
    if (step.loop == nullptr) {
      bytes = 0;
      continue;
    }
    bytes -= step.loop->body->packed_bytes;
    for (const Plan* inner : {step.loop->condition.get(), step.loop->body.get()}) {
      bytes += inner == nullptr ? 0 : aligned(bare_arena(*inner)) - aligned(inner->arena_bytes);
    }
  }
  plan_memory(bare);
  return bare.arena_bytes;
}

}  // namespace

std::string summary(const Plan& plan) {
  Count counted;
  count(plan, 1, counted);
  std::string text;
  const auto line = [&](std::string_view name, double value) {
    text += fmt::format("{:<28} {:>18.0f}\n", name, value);
  };
  const auto bytes = [&](std::string_view name, int64_t value) {
    text += fmt::format("{:<28} {:>18}\n", name, value);
  };
  text += fmt::format("{:<28} {}\n", "digest",
                      to_string(hash_bytes(Printer(plan, Places::kLeftOut, 0).print())));
  line("kernels in a run", counted.kernels);
  line("FLOPs in a run", plan.cost.flops);
  line("bytes moved in a run", plan.cost.bytes);
  bytes("inputs, bytes", plan.memory.inputs);
  bytes("outputs, bytes", plan.memory.outputs);
  bytes("gradients, bytes", plan.memory.gradients);
  bytes("saved, bytes", plan.memory.saved);
  bytes("transient, bytes", plan.memory.transient);
  bytes("arena, less workspaces", bare_arena(plan));
  for (const auto& [name, steps] : counted.steps) {
    bytes(fmt::format("step {}", name), steps);
  }
  return text;
}

std::string describe(const Plan& plan) {
  std::string text = summary(plan);
  text += fmt::format("{:<28} {:>18}\n{:<28} {:>18}\n", "workspaces, bytes", plan.memory.workspace,
                      "arena, bytes", plan.arena_bytes);
  return text + Printer(plan, Places::kShown, 0).print();
}

}  // namespace mstrain
