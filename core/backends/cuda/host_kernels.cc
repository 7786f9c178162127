// Operations that run on the host's processors: what is small, or rare, and has no kernel of its own. Their operands are copied there and
// their results back, for which everything waits; a warning says so once.
#include <set>

#include "core/backends/cuda/device.h"
#include "core/backends/cuda/exchange_kernels.h"
#include "core/backends/cuda/kernels.h"
#include "core/base/log.h"
#include "core/ops/collective_kernels.h"

namespace mstrain::cuda {
namespace {

const KernelEntry& entry_of_host(const OpDef& op) { return *find_kernel(backend_named("cpu"), op); }

bool host_supports(const KernelRequest& request) {
  const KernelEntry& entry = entry_of_host(request.op);
  return entry.supports == nullptr || entry.supports(request);
}

void tell(std::string_view op) {
  static std::mutex mutex;
  static std::set<std::string_view> told;
  const std::lock_guard lock(mutex);
  if (told.insert(op).second) {
    log_warning(
        "{}: the cuda backend has no kernel for it; it runs on the host, for which the "
        "device waits",
        op);
  }
}

struct HostCall {
  std::string_view op;
  Kernel kernel;
  std::vector<int64_t> inputs, outputs;  // bytes
};

// All memory of one call lies in one block, registered with the device.
void run_on_host(const HostCall& call, const KernelMemory& memory) {
  check_runs(*memory.queue, fmt::format("{} runs on the host", call.op));
  int64_t bytes = aligned_bytes(call.kernel.workspace_bytes);
  std::vector<int64_t> places;
  for (const auto& list : {call.inputs, call.outputs}) {
    for (int64_t size : list) {
      places.push_back(bytes);
      bytes += aligned_bytes(size);
    }
  }
  const Buffer block = Buffer::allocate(device()->staging(), std::max<int64_t>(bytes, 64));
  std::vector<void*> in, out;
  for (size_t i = 0; i < places.size(); ++i) {
    (i < call.inputs.size() ? in : out).push_back(block.data() + places[i]);
  }
  Queue& queue = *memory.queue;
  for (size_t i = 0; i < in.size(); ++i) {
    if (call.inputs[i] > 0) {
      queue.copy(in[i], memory.inputs[i], call.inputs[i]);
    }
  }
  queue.record().wait();
  call.kernel.run({in, out, block.data(), nullptr, nullptr});
  for (size_t i = 0; i < out.size(); ++i) {
    if (call.outputs[i] > 0) {
      queue.copy(memory.outputs[i], out[i], call.outputs[i]);
    }
  }
  queue.record().wait();
}

Kernel prepare_on_host(const KernelRequest& request) {
  tell(request.op.name);
  auto call = std::make_shared<HostCall>(HostCall{.op = request.op.name});
  call->kernel = entry_of_host(request.op)
                     .prepare({request.op, request.attrs, request.inputs, request.outputs, 1, 0,
                               request.scope});
  for (const ViewType& view : request.inputs) {
    call->inputs.push_back(view.type.bytes());
  }
  for (const ViewType& view : request.outputs) {
    call->outputs.push_back(view.type.bytes());
  }
  return {.run = [call](const KernelMemory& memory) { run_on_host(*call, memory); }};
}

// Of one rank everything is a copy, or a sum of two; several exchange as they can.
Kernel prepare_collective(const KernelRequest& request) {
  if (axis_of(request.attrs).size > 1) {
    return exchanges_by_cards(request) ? prepare_exchange(request) : prepare_on_host(request);
  }
  if (request.inputs.size() == 2) {
    return prepare_exchange(request);
  }
  return {.run = [bytes = request.inputs[0].type.bytes()](const KernelMemory& memory) {
    if (bytes > 0 && memory.outputs[0] != memory.inputs[0]) {
      memory.queue->copy(memory.outputs[0], memory.inputs[0], bytes);
    }
  }};
}

Kernel prepare_axis_index(const KernelRequest& request) {
  return {.run = [call = CollectiveCall(request)](const KernelMemory& memory) {
    const auto place =
        std::make_shared<Buffer>(Buffer::allocate(device()->staging(), sizeof(int32_t)));
    *reinterpret_cast<int32_t*>(place->data()) = call.alone() ? 0 : call.group().rank();
    memory.queue->copy(memory.outputs[0], place->data(), sizeof(int32_t), place);
  }};
}

}  // namespace

void register_host_kernels(Backend& table) {
  for (const char* op :
       {"cholesky", "triangular_solve", "solve", "slogdet", "eigh", "qr", "svd", "decode_rows"}) {
    register_kernel(table, op, {.prepare = prepare_on_host, .supports = host_supports});
  }
  for (const char* op : {"all_gather", "all_reduce", "all_to_all", "permute", "reduce_scatter"}) {
    register_kernel(table, op, {.prepare = prepare_collective});
  }
  register_kernel(table, "axis_index", {.prepare = prepare_axis_index});
  for (const OpDef* op : all_ops()) {
    if (op->name.find("fft") != std::string_view::npos) {
      register_kernel(table, op->name, {.prepare = prepare_on_host, .supports = host_supports});
    }
  }
}

}  // namespace mstrain::cuda
