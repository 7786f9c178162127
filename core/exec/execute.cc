#include "core/exec/execute.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/ir/error_place.h"
#include "core/ir/halves.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

void* at(void* base, int64_t offset) { return static_cast<std::byte*>(base) + offset; }

void copy(const PlanRun& run, void* to, const void* from, int64_t bytes) {
  run.queue.copy(to, from, bytes);
}

// The axis along which a step's kernel exchanges numbers; empty where it does not.
std::string_view axis_of(const PlanStep& step) {
  const bool exchanges = step.kernel != nullptr && halves_of(*step.kernel) != nullptr;
  const Attr* const axis = exchanges ? step.attrs.find("axis") : nullptr;
  const auto* const name = axis == nullptr ? nullptr : std::get_if<std::string>(axis);
  return name == nullptr ? std::string_view() : std::string_view(*name);
}

// Calls what a step's kernel does. Errors of what ranks exchange are about ranks, not about a line.
template <class F>
void timed(const PlanStep& step, std::vector<KernelTime>* times, const F& f) {
  const int64_t begin = times == nullptr ? 0 : nanoseconds_now();
  if (step.op->among_ranks) {
    f();
  } else {
    placing_errors(step.where, f);
  }
  if (times != nullptr) {
    times->push_back({step.name, step.place.scope, step.place.part, begin, nanoseconds_now(),
                      step.cost.flops, step.cost.bytes, axis_of(step)});
  }
}

// One of the halves of `step`: `turn` is the step itself, or the one that waits for it.
void begin_or_wait(const PlanStep& step, const PlanStep& turn, const KernelMemory& memory,
                   Event& event, std::vector<KernelTime>* times) {
  const bool waits = &step != &turn;
  Event ended;
  timed(turn, times, [&] {
    if (waits) {
      ended = std::exchange(event, Event());
      Halves::await(ended, memory);
      if (times != nullptr) {
        ended.wait();
      }
      halves_of(*step.kernel)->finish(memory);
    } else {
      event = halves_of(*step.kernel)->start(memory);
    }
  });
  if (times != nullptr) {
    KernelTime& time = times->back();
    time.axis = axis_of(step);
    time.half = waits ? KernelTime::Half::kWait : KernelTime::Half::kBegin;
    time.done = ended.ended();
  }
}

// `memory` holds in the call only. A kernel that only launches is timed by the events before and behind it, one at a time.
void call(const PlanStep& step, const KernelMemory& memory, std::vector<KernelTime>* times) {
  const bool launches = times != nullptr && !memory.queue->calls_later();
  const Event before = launches ? memory.queue->record() : Event();
  Event behind;
  timed(step, times, [&] {
    step.kernel->run(memory);
    behind = launches ? memory.queue->record() : Event();
    behind.wait();
  });
  if (const int64_t end = behind.ended(); end > 0) {
    times->back().begin = before.ended();
    times->back().end = end;
  }
}

// The same in its turn.
void launch(const PlanStep& step, const KernelMemory& memory, const PlanRun& run) {
  if (!run.queue.calls_later()) {
    call(step, memory, run.times);
    return;
  }
  run.queue.submit([&step, memory, times = run.times,
                    in = PlanAddresses::List(memory.inputs.begin(), memory.inputs.end()),
                    out = PlanAddresses::List(memory.outputs.begin(), memory.outputs.end())] {
    KernelMemory own = memory;
    own.inputs = in;
    own.outputs = out;
    call(step, own, times);
  });
}

// A carry's initial value in its place, where it does not lie there already.
void load_carry(const LoopPlan& loop, size_t i, std::span<void* const> inputs,
                std::span<void* const> outputs, const PlanRun& run) {
  if (inputs[i] != outputs[i]) {
    in_turn(run.queue,
            [kernel = loop.load[i].get(), in = inputs[i], out = outputs[i], queue = &run.queue] {
              kernel->run({std::span(&in, 1), std::span(&out, 1), nullptr, nullptr, queue});
            });
  }
}

// What the steps of a loop's body share, made of its constants.
void make_packs(const PlanStep& step, std::span<void* const> inputs, void* workspace,
                PlanAddresses& addresses, const PlanRun& run) {
  const Plan& body = *step.loop->body;
  for (size_t i = 0; i < body.packs.size(); ++i) {
    const PlanPack& pack = body.packs[i];
    addresses.packs[i] = at(workspace, step.loop->packed + pack.place);
    in_turn(run.queue, [&step, &pack, times = run.times, to = addresses.packs[i],
                        from = at(inputs[static_cast<size_t>(pack.input)], pack.offset)] {
      const int64_t begin = times == nullptr ? 0 : nanoseconds_now();
      pack.kernel->packed.pack(from, to);
      if (times != nullptr) {
        const auto bytes = pack.view.type.bytes() + pack.kernel->packed.bytes;
        times->push_back({"pack", step.place.scope, step.place.part, begin, nanoseconds_now(), 0,
                          static_cast<double>(bytes)});
      }
    });
  }
}

// Where the tensors of one step lie: carries…, constants…, xs… and carries…, ys…, kept carries….
void run_scan(const PlanStep& step, std::span<void* const> inputs, std::span<void* const> outputs,
              const Arenas& spaces, PlanAddresses::Loop& addresses, const PlanRun& run) {
  const LoopPlan& loop = *step.loop;
  const Plan& body = *loop.body;
  const auto carries = static_cast<size_t>(loop.carries);
  const size_t fixed = carries + static_cast<size_t>(loop.constants);
  const size_t ys = body.outputs.size() - carries;
  void* const workspace = spaces.device;
  PlanAddresses::List& in = addresses.inputs;
  PlanAddresses::List& out = addresses.outputs;
  std::copy(inputs.begin(), inputs.end(), in.begin());
  for (size_t i = 0; i < carries; ++i) {
    in[i] = outputs[i];
    out[i] = loop.staging_offsets[i] < 0 ? in[i] : at(workspace, loop.staging_offsets[i]);
    load_carry(loop, i, inputs, outputs, run);
  }
  make_packs(step, inputs, workspace, *addresses.body, run);
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
      copy(run, at(outputs[carries + ys + i], index * bytes), in[i], bytes);
    }
    execute(body, in, out, {arena, spaces.host}, *addresses.body, run);
    for (size_t i = 0; i < carries; ++i) {
      if (out[i] != in[i]) {
        copy(run, in[i], out[i], body.input_types[i].bytes());
      }
    }
  }
}

void run_while(const PlanStep& step, std::span<void* const> inputs, std::span<void* const> outputs,
               const Arenas& spaces, PlanAddresses::Loop& addresses, const PlanRun& run) {
  const LoopPlan& loop = *step.loop;
  const Plan& body = *loop.body;
  const auto carries = static_cast<size_t>(loop.carries);
  void* const workspace = spaces.device;
  PlanAddresses::List& in = addresses.inputs;
  PlanAddresses::List& out = addresses.outputs;
  std::copy(inputs.begin(), inputs.end(), in.begin());
  for (size_t i = 0; i < carries; ++i) {
    in[i] = outputs[i];
    out[i] = loop.staging_offsets[i] < 0 ? in[i] : at(workspace, loop.staging_offsets[i]);
    load_carry(loop, i, inputs, outputs, run);
  }
  make_packs(step, inputs, workspace, *addresses.body, run);
  void* const condition = at(workspace, loop.condition_offset);
  auto* condition_arena = static_cast<std::byte*>(at(workspace, loop.condition_arena));
  auto* arena = static_cast<std::byte*>(at(workspace, loop.body_arena));
  const auto goes_on = [&] {
    execute(*loop.condition, in, std::span(&condition, 1), {condition_arena}, *addresses.condition,
            run);
    auto* const holds = reinterpret_cast<bool*>(addresses.holds.data());
    copy(run, holds, condition, sizeof(*holds));
    run.queue.record().wait();
    return *holds;
  };
  while (goes_on()) {
    execute(body, in, out, {arena, spaces.host}, *addresses.body, run);
    for (size_t i = 0; i < carries; ++i) {
      if (out[i] != in[i]) {
        copy(run, in[i], out[i], body.input_types[i].bytes());
      }
    }
  }
}

// Where a step throws, memory is in use until what was begun has ended.
struct SettleOnExit {
  std::vector<Event>& begun;
  ~SettleOnExit() {
    for (Event& event : begun) {
      std::exchange(event, Event()).settle();
    }
  }
};

}  // namespace

void* kernel_address(const Tensor& x) {
  const Buffer& buffer = x.buffer();
  return buffer.device().kernel_address(buffer.data() + x.offset() * size_of(x.dtype()));
}

void check_device(const Tensor& x, const Device& device) {
  if (&x.buffer().device() != &device) {
    fail("{} lies on the device {}, but is used on {}: make it there, of what HostRead gives",
         to_string(x.type()), x.buffer().device().name(), device.name());
  }
}

PlanAddresses::PlanAddresses(const Plan& plan)
    : packs(plan.packs.size()), loops(plan.steps.size()) {
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (step.begins) {
      begun.resize(plan.steps.size());
    }
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
        loops[s]->holds = Buffer::allocate(current_context().device().staging(), sizeof(bool));
      }
    }
  }
}

void execute(const Plan& plan, std::span<void* const> inputs, std::span<void* const> outputs,
             const Arenas& arenas, PlanAddresses& addresses, const PlanRun& run) {
  const auto address = [&](const PlanView& view) {
    const PlanBuffer& buffer = plan.buffers[static_cast<size_t>(view.buffer)];
    switch (buffer.kind) {
      case PlanBuffer::Kind::kInput:
        return at(inputs[static_cast<size_t>(buffer.index)], view.offset);
      case PlanBuffer::Kind::kOutput:
        return at(outputs[static_cast<size_t>(buffer.index)], view.offset);
      case PlanBuffer::Kind::kArena: break;
    }
    return at(buffer.host ? arenas.host : arenas.device, buffer.offset + view.offset);
  };
  const auto resolve = [&](const std::vector<PlanView>& views, PlanAddresses::List& list) {
    std::transform(views.begin(), views.end(), list.begin(), address);
    return std::span<void* const>(list.data(), views.size());
  };
  const SettleOnExit settled{addresses.begun};
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const bool waits = plan.steps[s].waits_for >= 0;
    // What a queue calls later it calls as a whole, where it begins: nobody waits for the queue meanwhile.
    if (waits && run.queue.calls_later()) {
      continue;
    }
    const size_t named = waits ? static_cast<size_t>(plan.steps[s].waits_for) : s;
    const PlanStep& step = plan.steps[named];
    const auto in = resolve(step.inputs, addresses.inputs);
    const auto out = resolve(step.outputs, addresses.outputs);
    const auto space = [&](std::byte* arena, int buffer) {
      return buffer < 0 ? nullptr : arena + plan.arena_offset(buffer);
    };
    std::byte* const workspace = space(arenas.device, step.workspace);
    const Arenas spaces{workspace, space(arenas.host, step.host_workspace)};
    if (step.begins && !run.queue.calls_later()) {
      begin_or_wait(step, plan.steps[s], {in, out, workspace, nullptr, &run.queue},
                    addresses.begun[named], run.times);
    } else if (step.loop == nullptr) {
      void* const packed =
          step.pack < 0 ? nullptr : addresses.packs[static_cast<size_t>(step.pack)];
      launch(step, {in, out, workspace, packed, &run.queue}, run);
    } else if (step.loop->condition == nullptr) {
      run_scan(step, in, out, spaces, *addresses.loops[s], run);
    } else {
      run_while(step, in, out, spaces, *addresses.loops[s], run);
    }
  }
}

}  // namespace mstrain
