// Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed. Where work runs that can end in good order, the first of them asks it to; at
// any other time, and the second time, they end the process at once with status 130: what runs then leaves nothing behind that would be lost.
// SIGHUP may come twice of one closed terminal, and only asks; under nohup it is not heard.
#pragma once

#include <atomic>

namespace mstrain {

// The signals wait until catch_interrupts(), also of a program that this process becomes.
void hold_interrupts();

// Takes over the signals of this process, and lets them in. The flag is set once work is to end.
const std::atomic<bool>& catch_interrupts();

// Sets the flag: another process, with which this one works together, was asked to end.
void request_interrupt();

// From here on what nobody reads any more of what this process prints is lost, and ends it no more.
void outlive_output();

// While one lives, somebody looks at that flag. Any thread; several may live at once.
class HeedInterrupts {
 public:
  HeedInterrupts();
  ~HeedInterrupts();
  HeedInterrupts(const HeedInterrupts&) = delete;
  HeedInterrupts& operator=(const HeedInterrupts&) = delete;
};

}  // namespace mstrain
