#include "core/tensor/host_memory.h"

#include <algorithm>

#include "core/runtime/context.h"
#include "core/runtime/host_memory.h"
#include "core/tensor/host.h"

namespace mstrain {

Tensor uninitialised_in_host_memory(const TensorType& type) {
  const std::shared_ptr<Allocator>& memory = host_memory_of(current_context().device());
  return {type, Buffer::allocate(memory, std::max<int64_t>(type.bytes(), 1)), 0,
          contiguous_strides(type.shape)};
}

Tensor on_host(const Tensor& x) {
  const Tensor from = dense(x);
  const Tensor to = uninitialised_in_host_memory(from.type());
  Submission work(current_context().device(), Device::Use::kCopies);
  work.reads(from.buffer());
  work.writes(to.buffer());
  if (const int64_t bytes = from.type().bytes(); bytes > 0) {
    work.queue().copy(to.buffer().data(),
                      from.buffer().data() + from.offset() * size_of(from.dtype()), bytes);
  }
  work.finish();
  return to;
}

}  // namespace mstrain
