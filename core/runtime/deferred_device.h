// The twin of a device that works beside the host, for tests: it runs the host's kernels, but as late as it can, and its
// memory cannot be touched by the host. What passes on it waits for all that it needs and reads through the host's door.
//
// Memory is mapped twice: where tensors lie no access is allowed, and one ends the process with a message; kernels get the
// other mapping's addresses. Work waits in several queues and runs on a thread of the device, only while somebody waits
// for an event or a queue is too long, and a little ahead of that; and in the end by itself, for another device may wait for what
// it sends. Which queue is next is drawn: whatever no event orders runs in one order or the other. With `ahead` 0 the order is a function of the seed and of what one thread asks.
#pragma once

#include "core/runtime/device.h"

namespace mstrain {

struct DeferredOptions {
  uint64_t seed = 1;
  int kernel_queues = 3;  // a program, or an eager operation, takes one at random
  int ahead = 4;          // the most that runs, in one go, before anybody waits for it
  int patience_ms = 5;    // until all runs that nobody waits for; not with `ahead` 0
};

std::shared_ptr<Device> make_deferred_device(const DeferredOptions& options);

}  // namespace mstrain
