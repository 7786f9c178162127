#include "core/exec/captured_runs.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/log.h"

namespace mstrain {
namespace {

constexpr int64_t kLargestSlot = int64_t{1} << 20;  // what is larger mostly stays where it is
constexpr size_t kMostKnown = 8;

// Why a run cannot be captured, as far as the plan tells; empty: it can.
std::string reason_against(const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    if (step.op->among_ranks) {
      return fmt::format("the host watches exchanges among ranks ({})", step.name);
    }
    if (step.loop == nullptr) {
      continue;
    }
    if (step.loop->condition != nullptr) {
      return fmt::format("the host reads the condition of a loop ({})", step.name);
    }
    if (std::string inner = reason_against(*step.loop->body); !inner.empty()) {
      return inner;
    }
  }
  return {};
}

bool is_switched_off() {
  const char* const value = std::getenv("MSTRAIN_CUDA_GRAPHS");
  return value != nullptr && std::string_view(value) == "0";
}

}  // namespace

CapturedRuns::CapturedRuns(const Plan& plan)
    : why_not_(is_switched_off() ? "MSTRAIN_CUDA_GRAPHS is 0" : reason_against(plan)) {
  if (!why_not_.empty()) {
    return;
  }
  std::vector<bool> stays(plan.inputs.size(), false);
  for (const int input : plan.output_alias) {
    if (input >= 0) {
      stays[static_cast<size_t>(input)] = true;
    }
  }
  const auto add = [&](std::vector<Slot>& slots, size_t place, int buffer, int64_t bytes) {
    if (bytes > 0 && bytes <= kLargestSlot && !plan.buffers[static_cast<size_t>(buffer)].host) {
      slots.push_back({place, slot_bytes_, bytes});
      slot_bytes_ += aligned(bytes);
    }
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (!stays[i]) {
      add(in_slots_, i, plan.inputs[i], plan.input_types[i].bytes());
    }
  }
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    if (plan.output_alias[o] < 0) {
      add(out_slots_, o, plan.outputs[o], plan.output_types[o].bytes());
    }
  }
  slot_bytes_ = std::max(slot_bytes_, kPlanAlignment);
}

void CapturedRuns::run(const Plan& plan, std::span<void* const> inputs,
                       std::span<void* const> outputs, const Arenas& arenas, std::byte* slots,
                       PlanAddresses& addresses, CapturingQueue& queue) {
  const auto plainly = [&] { execute(plan, inputs, outputs, arenas, addresses, {queue}); };
  if (!why_not_.empty()) {
    plainly();
    return;
  }
  in_.assign(inputs.begin(), inputs.end());
  out_.assign(outputs.begin(), outputs.end());
  for (const Slot& slot : in_slots_) {
    in_[slot.place] = slots + slot.offset;
  }
  for (const Slot& slot : out_slots_) {
    out_[slot.place] = slots + slot.offset;
  }
  Addresses key = in_;
  key.insert(key.end(), out_.begin(), out_.end());
  const auto known =
      std::find_if(known_.begin(), known_.end(), [&](const Known& it) { return it.key == key; });
  if (known == known_.end()) {
    if (known_.size() == kMostKnown) {
      if (known_.back().captured != nullptr) {
        queue.record().settle();  // it may still run
      }
      known_.pop_back();
    }
    known_.insert(known_.begin(), {std::move(key), nullptr});
    plainly();
    return;
  }
  std::rotate(known_.begin(), known, known + 1);
  std::unique_ptr<Captured>& captured = known_.front().captured;
  if (captured == nullptr) {
    try {
      queue.begin_capture();
      execute(plan, in_, out_, arenas, addresses, {queue});
      captured = queue.end_capture();
    } catch (const NotCaptured& error) {
      queue.drop_capture();
      why_not_ = error.what();
      log_info("the program is launched kernel by kernel, not as a whole: {}", why_not_);
      plainly();
      return;
    } catch (...) {
      queue.drop_capture();
      throw;
    }
  }
  launch(*captured, inputs, outputs, slots, queue);
}

void CapturedRuns::launch(const Captured& captured, std::span<void* const> inputs,
                          std::span<void* const> outputs, std::byte* slots,
                          CapturingQueue& queue) const {
  for (const Slot& slot : in_slots_) {
    queue.copy(slots + slot.offset, inputs[slot.place], slot.bytes);
  }
  queue.launch(captured);
  for (const Slot& slot : out_slots_) {
    queue.copy(outputs[slot.place], slots + slot.offset, slot.bytes);
  }
}

}  // namespace mstrain
