// What lies in the host's memory while the card does not need it: copies on two streams of their own, one for each direction, under
// the kernels between their halves.
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/kernels.h"
#include "core/ir/halves.h"

namespace mstrain::cuda {
namespace {

// Never destroyed, as the card.
Queue& to_host() {
  static Queue* const it = make_queue().release();
  return *it;
}
Queue& from_host() {
  static Queue* const it = make_queue().release();
  return *it;
}

template <Queue& (*queue)()>
Kernel prepare_copy(const KernelRequest& request) {
  return {Halves{[bytes = request.inputs[0].type.bytes()](const KernelMemory& memory) -> Event {
                   if (bytes == 0) {
                     return {};
                   }
                   queue().wait(memory.queue->record(), /*needed=*/true);
                   queue().copy(memory.outputs[0], memory.inputs[0], bytes);
                   return queue().record();
                 },
                 [](const KernelMemory&) {}}};
}

}  // namespace

void register_offload_kernels(Backend& table) {
  register_kernel(table, "stow", {.prepare = prepare_copy<to_host>});
  register_kernel(table, "fetch", {.prepare = prepare_copy<from_host>});
}

}  // namespace mstrain::cuda
