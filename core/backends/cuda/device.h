// A card as a device: its memory, its streams (kernels; copies between it and the host; others), pinned staging memory.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "core/backends/cuda/driver.h"
#include "core/backends/cuda/joint_launches.h"
#include "core/runtime/device.h"

namespace mstrain::cuda {

// The card that is this process's, opened when first asked for. Throws Error where there is none.
const std::shared_ptr<Device>& device();

// Which card of the machine that is: the first, unless it was said before device() opened it. Throws Error where it opened another.
void choose_card(int ordinal);
int chosen_card();
// What the driver says of it; null where there is none.
const DeviceFacts* chosen_facts();

// One more stream of device(), beside its own.
std::unique_ptr<Queue> make_queue();

// Gives a launch to the queue. Where that is captured it may wait for others like it.
void give(Queue& queue, const CardLaunch& launch);

// The stream of a queue of device(), which has everything by now that the queue was given.
Driver::Handle stream_of(Queue& queue);

// What is given to the card has no results from now on: whoever waits for it gets `why` thrown. The first reason stays.
void spoil(std::exception_ptr why);
// Throws it, if anything is spoilt.
void check_spoilt();

// Whether what the queue is given is captured, and not run.
bool is_captured(Queue& queue);
// Throws NotCaptured where it is; `what` then cannot be done.
void check_runs(Queue& queue, const std::string& what);

// Binds device()'s context to the calling thread; cheap where it is bound.
void bind_context();

// Where kernels report bad values: an address for kernels.
void* report_address();

// Throws Error with what a kernel has reported since the last call, if anything.
void check_report();

}  // namespace mstrain::cuda
