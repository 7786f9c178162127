// Queues that can keep the work that they are given instead of running it, and then run all of it again by one call: the same
// kernels on the same addresses.
#pragma once

#include "core/base/error.h"
#include "core/runtime/device.h"

namespace mstrain {

// Thrown while work is captured by whatever cannot be: the host would have to wait, or to do something itself each time.
class NotCaptured : public Error {
 public:
  using Error::Error;
};

// What was captured. It may not be dropped while it runs.
class Captured {
 public:
  Captured() = default;
  virtual ~Captured() = default;
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
};

class CapturingQueue : public Queue {
 public:
  // From now on work is kept, of other queues too that wait for this one's and that this one waits for in the end.
  virtual void begin_capture() = 0;
  // What was given since. Throws NotCaptured where it does not make a whole; it is then dropped.
  virtual std::unique_ptr<Captured> end_capture() = 0;
  virtual void drop_capture() noexcept = 0;
  virtual void launch(const Captured& work) = 0;
};

}  // namespace mstrain
