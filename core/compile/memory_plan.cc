#include <algorithm>

#include "core/compile/plan.h"

namespace mstrain {
namespace {

// What lies in the arena, for people: see ProgramMemory.
void classify(Plan& plan) {
  using Use = PlanBuffer::Use;
  std::vector<bool> forward(plan.buffers.size(), false);
  std::vector<bool> made_by_optimizer(plan.buffers.size(), false);
  std::vector<bool> made_backward(plan.buffers.size(), false);
  for (const PlanStep& step : plan.steps) {
    const bool backward = step.place.part == StepPart::kBackward;
    const bool optimizer = step.place.part == StepPart::kUpdate;
    for (const PlanView& view : step.inputs) {
      const auto at = static_cast<size_t>(view.buffer);
      PlanBuffer& read = plan.buffers[at];
      if (read.kind != PlanBuffer::Kind::kArena || read.use == Use::kWorkspace) {
        continue;
      }
      if ((optimizer && !made_by_optimizer[at]) || (!backward && made_backward[at])) {
        read.use = Use::kGradient;
      } else if (backward && forward[at] && read.use == Use::kTransient) {
        read.use = Use::kSaved;
      }
    }
    for (const PlanView& view : step.outputs) {
      forward[static_cast<size_t>(view.buffer)] = !backward && !optimizer;
      made_by_optimizer[static_cast<size_t>(view.buffer)] = optimizer;
      made_backward[static_cast<size_t>(view.buffer)] = backward;
    }
  }
}

// The most bytes of each use that live at once. Uses share the arena, so that their sum may exceed it.
void summarise(Plan& plan) {
  using Use = PlanBuffer::Use;
  const size_t steps = plan.steps.size() + 1;
  std::vector<std::array<int64_t, 4>> change(steps + 1);
  for (const PlanBuffer& buffer : plan.buffers) {
    if (buffer.kind == PlanBuffer::Kind::kArena && buffer.last >= 0) {
      const auto use = static_cast<size_t>(buffer.use);
      change[static_cast<size_t>(buffer.first)][use] += aligned(buffer.bytes);
      change[static_cast<size_t>(buffer.last) + 1][use] -= aligned(buffer.bytes);
    }
  }
  // A loop's workspace is the memory of its body, by use.
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].loop != nullptr) {
      const ProgramMemory& body = plan.steps[s].loop->body->memory;
      const std::pair<Use, int64_t> parts[] = {{Use::kTransient, body.transient},
                                               {Use::kSaved, body.saved},
                                               {Use::kGradient, body.gradients}};
      for (const auto& [use, bytes] : parts) {
        for (const auto& [part, sign] : {std::pair(use, 1), std::pair(Use::kWorkspace, -1)}) {
          change[s][static_cast<size_t>(part)] += sign * bytes;
          change[s + 1][static_cast<size_t>(part)] -= sign * bytes;
        }
      }
    }
  }
  std::array<int64_t, 4> live{};
  std::array<int64_t, 4> fullest{};
  for (const auto& step : change) {
    for (size_t use = 0; use < live.size(); ++use) {
      live[use] += step[use];
      fullest[use] = std::max(fullest[use], live[use]);
    }
  }
  plan.memory.transient = fullest[static_cast<size_t>(Use::kTransient)];
  plan.memory.saved = fullest[static_cast<size_t>(Use::kSaved)];
  plan.memory.gradients = fullest[static_cast<size_t>(Use::kGradient)];
  plan.memory.workspace = fullest[static_cast<size_t>(Use::kWorkspace)];
  plan.memory.arena = plan.arena_bytes;
  for (size_t i = 0; i < plan.input_types.size(); ++i) {
    plan.memory.inputs += plan.input_types[i].bytes();
  }
  for (size_t i = 0; i < plan.output_types.size(); ++i) {
    plan.memory.outputs += plan.output_alias[i] < 0 ? plan.output_types[i].bytes() : 0;
  }
}

}  // namespace

// Largest first, each at the lowest offset that is free during its whole life.
void plan_memory(Plan& plan) {
  classify(plan);
  std::vector<PlanBuffer*> order;
  for (PlanBuffer& buffer : plan.buffers) {
    if (buffer.kind == PlanBuffer::Kind::kArena && buffer.last >= 0 && buffer.bytes > 0) {
      order.push_back(&buffer);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const PlanBuffer* a, const PlanBuffer* b) { return a->bytes > b->bytes; });
  // What has its place, by offset; all of it is walked for every buffer, so that it lies close together.
  struct Placed {
    int first, last;
    int64_t begin, end;
  };
  std::vector<Placed> placed;
  for (PlanBuffer* buffer : order) {
    const int64_t size = aligned(buffer->bytes);
    int64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.last < buffer->first || other.first > buffer->last) {
        continue;
      }
      if (other.begin >= offset + size) {
        break;
      }
      offset = std::max(offset, other.end);
    }
    buffer->offset = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + size);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](int64_t at, const Placed& other) { return at < other.begin; }),
        {buffer->first, buffer->last, offset, offset + size});
  }
  summarise(plan);
}

}  // namespace mstrain
