#include "core/exec/execute.h"

#include <algorithm>
#include <cstring>

#include "core/base/clock.h"

namespace mstrain {
namespace {

void* at(void* base, int64_t offset) { return static_cast<std::byte*>(base) + offset; }

// A carry's initial value in its place, where it does not lie there already.
void load_carry(const LoopPlan& loop, size_t i, std::span<void* const> inputs,
                std::span<void* const> outputs) {
  if (inputs[i] != outputs[i]) {
    loop.load[i]->run({std::span(&inputs[i], 1), std::span(&outputs[i], 1), nullptr});
  }
}

// What the steps of a loop's body share, made of its constants.
void make_packs(const PlanStep& step, std::span<void* const> inputs, void* workspace,
                PlanAddresses& addresses, std::vector<KernelTime>* times) {
  const Plan& body = *step.loop->body;
  for (size_t i = 0; i < body.packs.size(); ++i) {
    const PlanPack& pack = body.packs[i];
    const int64_t begin = times == nullptr ? 0 : nanoseconds_now();
    addresses.packs[i] = at(workspace, step.loop->packed + pack.place);
    pack.kernel->packed.pack(at(inputs[static_cast<size_t>(pack.input)], pack.offset),
                             addresses.packs[i]);
    if (times != nullptr) {
      const auto bytes = pack.view.type.bytes() + pack.kernel->packed.bytes;
      times->push_back({"pack", step.place.scope, step.place.part, begin, nanoseconds_now(), 0,
                        static_cast<double>(bytes)});
    }
  }
}

// Where the tensors of one step lie: carries…, constants…, xs… and carries…, ys…, kept carries….
void run_scan(const PlanStep& step, std::span<void* const> inputs, std::span<void* const> outputs,
              void* workspace, PlanAddresses::Loop& addresses, std::vector<KernelTime>* times) {
  const LoopPlan& loop = *step.loop;
  const Plan& body = *loop.body;
  const auto carries = static_cast<size_t>(loop.carries);
  const size_t fixed = carries + static_cast<size_t>(loop.constants);
  const size_t ys = body.outputs.size() - carries;
  PlanAddresses::List& in = addresses.inputs;
  PlanAddresses::List& out = addresses.outputs;
  std::copy(inputs.begin(), inputs.end(), in.begin());
  for (size_t i = 0; i < carries; ++i) {
    in[i] = outputs[i];
    out[i] = loop.staging_offsets[i] < 0 ? in[i] : at(workspace, loop.staging_offsets[i]);
    load_carry(loop, i, inputs, outputs);
  }
  make_packs(step, inputs, workspace, *addresses.body, times);
  auto* arena = static_cast<std::byte*>(at(workspace, loop.body_arena));
  for (int64_t t = 0; t < loop.length; ++t) {
    const int64_t index = loop.reverse ? loop.length - 1 - t : t;
    for (size_t i = fixed; i < in.size(); ++i) {
      in[i] = at(inputs[i], index * body.input_types[i].bytes());
    }
    for (size_t i = 0; i < ys; ++i) {
      out[carries + i] = at(outputs[carries + i], index * body.output_types[carries + i].bytes());
    }
    for (size_t i = 0; loop.keep_carries && i < carries; ++i) {
      const int64_t bytes = body.input_types[i].bytes();
      std::memcpy(at(outputs[carries + ys + i], index * bytes), in[i], static_cast<size_t>(bytes));
    }
    execute(body, in, out, arena, *addresses.body, times);
    for (size_t i = 0; i < carries; ++i) {
      if (out[i] != in[i]) {
        std::memcpy(in[i], out[i], static_cast<size_t>(body.input_types[i].bytes()));
      }
    }
  }
}

void run_while(const PlanStep& step, std::span<void* const> inputs, std::span<void* const> outputs,
               void* workspace, PlanAddresses::Loop& addresses, std::vector<KernelTime>* times) {
  const LoopPlan& loop = *step.loop;
  const Plan& body = *loop.body;
  const auto carries = static_cast<size_t>(loop.carries);
  PlanAddresses::List& in = addresses.inputs;
  PlanAddresses::List& out = addresses.outputs;
  std::copy(inputs.begin(), inputs.end(), in.begin());
  for (size_t i = 0; i < carries; ++i) {
    in[i] = outputs[i];
    out[i] = loop.staging_offsets[i] < 0 ? in[i] : at(workspace, loop.staging_offsets[i]);
    load_carry(loop, i, inputs, outputs);
  }
  make_packs(step, inputs, workspace, *addresses.body, times);
  void* const condition = at(workspace, loop.condition_offset);
  auto* condition_arena = static_cast<std::byte*>(at(workspace, loop.condition_arena));
  auto* arena = static_cast<std::byte*>(at(workspace, loop.body_arena));
  const auto goes_on = [&] {
    execute(*loop.condition, in, std::span(&condition, 1), condition_arena, *addresses.condition,
            times);
    return *static_cast<const bool*>(condition);
  };
  while (goes_on()) {
    execute(body, in, out, arena, *addresses.body, times);
    for (size_t i = 0; i < carries; ++i) {
      if (out[i] != in[i]) {
        std::memcpy(in[i], out[i], static_cast<size_t>(body.input_types[i].bytes()));
      }
    }
  }
}

}  // namespace

PlanAddresses::PlanAddresses(const Plan& plan)
    : packs(plan.packs.size()), loops(plan.steps.size()) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    inputs.resize(std::max(inputs.size(), step.inputs.size()));
    outputs.resize(std::max(outputs.size(), step.outputs.size()));
    if (step.loop != nullptr) {
      const LoopPlan& loop = *step.loop;
      loops[s] = std::make_unique<Loop>();
      loops[s]->inputs.resize(loop.body->inputs.size());
      loops[s]->outputs.resize(loop.body->outputs.size());
      loops[s]->body = std::make_unique<PlanAddresses>(*loop.body);
      if (loop.condition != nullptr) {
        loops[s]->condition = std::make_unique<PlanAddresses>(*loop.condition);
      }
    }
  }
}

void execute(const Plan& plan, std::span<void* const> inputs, std::span<void* const> outputs,
             std::byte* arena, PlanAddresses& addresses, std::vector<KernelTime>* times) {
  const auto address = [&](const PlanView& view) {
    const PlanBuffer& buffer = plan.buffers[static_cast<size_t>(view.buffer)];
    switch (buffer.kind) {
      case PlanBuffer::Kind::kInput:
        return at(inputs[static_cast<size_t>(buffer.index)], view.offset);
      case PlanBuffer::Kind::kOutput:
        return at(outputs[static_cast<size_t>(buffer.index)], view.offset);
      case PlanBuffer::Kind::kArena: break;
    }
    return at(arena, buffer.offset + view.offset);
  };
  const auto resolve = [&](const std::vector<PlanView>& views, PlanAddresses::List& list) {
    std::transform(views.begin(), views.end(), list.begin(), address);
    return std::span<void* const>(list.data(), views.size());
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    const auto in = resolve(step.inputs, addresses.inputs);
    const auto out = resolve(step.outputs, addresses.outputs);
    void* workspace = step.workspace < 0 ? nullptr : arena + plan.arena_offset(step.workspace);
    if (step.loop == nullptr) {
      const int64_t begin = times == nullptr ? 0 : nanoseconds_now();
      void* const packed =
          step.pack < 0 ? nullptr : addresses.packs[static_cast<size_t>(step.pack)];
      step.kernel->run({in, out, workspace, packed});
      if (times != nullptr) {
        times->push_back({step.name, step.place.scope, step.place.part, begin, nanoseconds_now(),
                          step.cost.flops, step.cost.bytes});
      }
    } else if (step.loop->condition == nullptr) {
      run_scan(step, in, out, workspace, *addresses.loops[s], times);
    } else {
      run_while(step, in, out, workspace, *addresses.loops[s], times);
    }
  }
}

}  // namespace mstrain
