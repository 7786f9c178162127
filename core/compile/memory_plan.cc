#include <algorithm>
#include <bit>
#include <optional>

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
    if (buffer.kind == PlanBuffer::Kind::kArena && buffer.last >= 0 && !buffer.host) {
      const auto use = static_cast<size_t>(buffer.use);
      change[static_cast<size_t>(buffer.first)][use] += aligned(buffer.bytes);
      change[static_cast<size_t>(buffer.last) + 1][use] -= aligned(buffer.bytes);
    }
  }
  // A loop's workspace is the memory of its body, by use.
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].loop != nullptr) {
      const ProgramMemory& body = plan.steps[s].loop->body->memory;
      plan.memory.packed = std::max(plan.memory.packed, plan.steps[s].loop->body->packed_bytes);
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
  plan.memory.host = plan.host_arena_bytes;
  const auto add = [&](int buffer, const TensorType& type, int64_t& to) {
    (plan.buffers[static_cast<size_t>(buffer)].host ? plan.memory.host : to) += type.bytes();
  };
  for (size_t i = 0; i < plan.input_types.size(); ++i) {
    add(plan.inputs[i], plan.input_types[i], plan.memory.inputs);
  }
  for (size_t i = 0; i < plan.output_types.size(); ++i) {
    if (plan.output_alias[i] < 0) {
      add(plan.outputs[i], plan.output_types[i], plan.memory.outputs);
    }
  }
}

// Bytes of the arena that are taken, as ranges in order with room between any two.
class Taken {
 public:
  void add(int64_t begin, int64_t end) {
    auto first = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                                  [](const Range& range, int64_t at) { return range.end < at; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      ranges_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      ranges_.erase(first + 1, last);
    }
  }

  // The lowest place for `size` bytes at `offset` or behind it.
  int64_t first_free(int64_t offset, int64_t size) const {
    auto next = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                 [](int64_t at, const Range& range) { return at < range.end; });
    for (; next != ranges_.end() && next->begin < offset + size; ++next) {
      offset = next->end;
    }
    return offset;
  }

 private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> ranges_;
};

// The arena over time: a tree whose leaves are the steps. What is placed is tightly packed, so that the ranges of a node are few, and
// placing a buffer takes time with the logarithm of the number of steps, however many buffers live at once.
class Arena {
 public:
  explicit Arena(size_t times)
      : times_(static_cast<int>(std::bit_ceil(times))), nodes_(2 * static_cast<size_t>(times_)) {}

  // The lowest offset that is free from `first` to `last`, which is taken then.
  int64_t place(int first, int last, int64_t size) {
    met_.clear();
    meet(1, 0, times_, first, last);
    int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Taken* taken : met_) {
        const int64_t free = taken->first_free(offset, size);
        moved = moved || free != offset;
        offset = free;
      }
    }
    take(1, 0, times_, first, last, offset, offset + size);
    return offset;
  }

 private:
  struct Node {
    Taken ever;     // at any of its times, by what is taken here or below
    Taken through;  // at all of its times
  };

  // Collects what is taken from `first` to `last`: by nodes within, or through nodes around.
  void meet(size_t node, int begin, int end, int first, int last) {
    if (first <= begin && end <= last + 1) {
      met_.push_back(&nodes_[node].ever);
      return;
    }
    met_.push_back(&nodes_[node].through);
    const int middle = begin + (end - begin) / 2;
    if (first < middle) {
      meet(2 * node, begin, middle, first, last);
    }
    if (last >= middle) {
      meet(2 * node + 1, middle, end, first, last);
    }
  }

  void take(size_t node, int begin, int end, int first, int last, int64_t from, int64_t to) {
    nodes_[node].ever.add(from, to);
    if (first <= begin && end <= last + 1) {
      nodes_[node].through.add(from, to);
      return;
    }
    const int middle = begin + (end - begin) / 2;
    if (first < middle) {
      take(2 * node, begin, middle, first, last, from, to);
    }
    if (last >= middle) {
      take(2 * node + 1, middle, end, first, last, from, to);
    }
  }

  int times_;
  std::vector<Node> nodes_;  // the children of node i are 2 i and 2 i + 1
  std::vector<const Taken*> met_;
};

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
  Arena device(plan.steps.size() + 1);
  std::optional<Arena> host;  // mostly there is none
  for (PlanBuffer* buffer : order) {
    const int64_t size = aligned(buffer->bytes);
    Arena& arena = buffer->host ? (host ? *host : host.emplace(plan.steps.size() + 1)) : device;
    buffer->offset = arena.place(buffer->first, buffer->last, size);
    int64_t& bytes = buffer->host ? plan.host_arena_bytes : plan.arena_bytes;
    bytes = std::max(bytes, buffer->offset + size);
  }
  summarise(plan);
}

}  // namespace mstrain
