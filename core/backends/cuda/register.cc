#include "core/backends/cuda/register.h"

#include <fmt/format.h>

#include "core/backends/cuda/card_communicator.h"
#include "core/backends/cuda/compiler.h"
#include "core/backends/cuda/device.h"
#include "core/backends/cuda/float8_matmul.h"
#include "core/backends/cuda/group.h"
#include "core/backends/cuda/kernels.h"
#include "core/backends/cuda/matmul.h"
#include "core/backends/cuda/programs.h"

namespace mstrain {
namespace cuda {
namespace {

// On a machine without a card, where memory is planned for one: what any card runs.
const TextEntry* entry_here(const KernelRequest& request) {
  const DeviceFacts* const facts = chosen_facts();
  return entry_for(request, facts == nullptr ? "" : architecture_of(facts->major, facts->minor));
}

bool supports_text(const KernelRequest& request) { return entry_here(request) != nullptr; }

Kernel prepare_text(const KernelRequest& request) {
  const CardKernel kernel(entry_here(request)->print(request), request);
  return {.run =
              [kernel](const KernelMemory& memory) {
                kernel.launch(memory.inputs, memory.outputs, memory.workspace, *memory.queue);
              },
          .workspace_bytes = kernel.workspace_bytes(),
          .in_place = kernel.in_place()};
}

// Products are the library's where it has them, else our own.
bool supports_product(const KernelRequest& request) {
  return has_matmul(request) || supports_text(request);
}
Kernel prepare_product(const KernelRequest& request) {
  return has_matmul(request) ? prepare_matmul(request) : prepare_text(request);
}

}  // namespace

void register_texts(Backend& table) {
  for (const TextEntry& entry : text_entries()) {
    if (!entry.architecture.empty()) {
      continue;  // another one serves what it does not
    }
    const bool product = entry.op == "dot_general";
    register_kernel(table, entry.op,
                    {.prepare = product ? prepare_product : prepare_text,
                     .supports = product ? supports_product : supports_text,
                     .strided_inputs = entry.strided_inputs});
  }
  register_kernel(table, "float8_product",
                  {.prepare = prepare_float8_matmul, .supports = has_float8_matmul});
}

}  // namespace cuda

namespace {

std::string find_missing() {
#ifdef MSTRAIN_WITHOUT_CUDA
  return "no device: built without CUDA";
#else
  const cuda::FoundDevices found = cuda::look_for_devices();
  if (!found.missing.empty()) {
    return "no device: " + found.missing;
  }
  for (const std::string& missing : {cuda::missing_compiler(), cuda::missing_matmul()}) {
    if (!missing.empty()) {
      return missing;
    }
  }
  return "";
#endif
}

std::string what_is_missing() {
  static const std::string missing = find_missing();
  return missing;
}

}  // namespace

void add_cuda_backend() {
  Backend& table = add_backend(
      {.name = "cuda",
       .missing = what_is_missing,
       .open = cuda::device,
       .connect = cuda::connect_cards,
       .links = cuda::describe_nccl,
       .limits = {.fused_row = cuda::kLongestRow, .keeps_places = true, .narrow_epilogues = true}});
  cuda::register_texts(table);
  cuda::register_host_kernels(table);
  cuda::register_offload_kernels(table);
}

}  // namespace mstrain
