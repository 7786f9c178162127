#include "core/train/device_messages.h"

#include "core/exec/execute.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

Elements elements_on_device(const Tensor& x) {
  return {kernel_address(x), x.type().elements(), x.dtype()};
}

}  // namespace

// The queue of copies waits for the one buffer alone, and not for kernels that were given before.
Event send_tensor(DeviceLinks& links, const Tensor& x, int peer, std::string_view what) {
  Submission work(x.buffer().device(), Device::Use::kCopies);
  work.reads(x.buffer());
  const Event gone = links.send_on_device(elements_on_device(x), peer, work.finish(), what);
  x.buffer().note_read(gone);
  return gone;
}

Tensor receive_tensor(DeviceLinks& links, const TensorType& type, int peer, std::string_view what) {
  Tensor x = uninitialised(type);
  Submission work(x.buffer().device(), Device::Use::kCopies);
  work.writes(x.buffer());
  x.buffer().note_write(links.receive_on_device(elements_on_device(x), peer, work.finish(), what));
  return x;
}

}  // namespace mstrain
