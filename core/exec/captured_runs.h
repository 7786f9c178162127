// A plan's runs as one launch each, on queues that can do so (core/runtime/capture.h): worth it where a plan is run again and again on
// the same memory, as a training step is whose results take over its arguments.
//
// What is captured has fixed addresses. Arguments and results that are small and lie elsewhere each time (batches, numbers) go through
// slots of the plan's own, by copies before and behind; all other addresses are the key under which a capture is found again.
#pragma once

#include "core/exec/execute.h"
#include "core/runtime/capture.h"

namespace mstrain {

class CapturedRuns {
 public:
  // Of `plan`, which it does not keep.
  explicit CapturedRuns(const Plan& plan);

  // Bytes of the slots; 0: no run can be captured, as `why_not` says.
  int64_t slot_bytes() const { return slot_bytes_; }
  const std::string& why_not() const { return why_not_; }

  // execute(), in the second run on the same memory captured, and launched from then on. `slots`: slot_bytes() of the device's
  // memory, aligned to 64 bytes.
  void run(const Plan& plan, std::span<void* const> inputs, std::span<void* const> outputs,
           const Arenas& arenas, std::byte* slots, PlanAddresses& addresses, CapturingQueue& queue);

 private:
  struct Slot {
    size_t place = 0;  // among inputs or outputs
    int64_t offset = 0, bytes = 0;
  };
  using Addresses = std::vector<void*>;
  struct Known {
    Addresses key;
    std::unique_ptr<Captured> captured;  // null: it was run once
  };
  void launch(const Captured& captured, std::span<void* const> inputs,
              std::span<void* const> outputs, std::byte* slots, CapturingQueue& queue) const;

  std::vector<Slot> in_slots_, out_slots_;
  int64_t slot_bytes_ = 0;
  std::string why_not_;
  Addresses in_, out_;        // of what is captured: slots where there are such
  std::vector<Known> known_;  // the one used last comes first
};

}  // namespace mstrain
