// Ctrl-C and SIGTERM. Where work runs that can end in good order, the first of them asks it to; at any other time, and the
// second time, they end the process at once with status 130: what runs then leaves nothing behind that would be lost.
#pragma once

#include <atomic>

namespace mstrain {

// Both signals wait until catch_interrupts(), also of a program that this process becomes.
void hold_interrupts();

// Takes over both signals of this process, and lets them in. The flag is set once work is to end.
const std::atomic<bool>& catch_interrupts();

// Sets the flag: another process, with which this one works together, was asked to end.
void request_interrupt();

// While one lives, somebody looks at that flag. Any thread; several may live at once.
class HeedInterrupts {
 public:
  HeedInterrupts();
  ~HeedInterrupts();
  HeedInterrupts(const HeedInterrupts&) = delete;
  HeedInterrupts& operator=(const HeedInterrupts&) = delete;
};

}  // namespace mstrain
