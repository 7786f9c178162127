// Tensors that go from one rank's device to another's.
#pragma once

#include <string_view>

#include "core/comm/device_links.h"
#include "core/ir/tensor.h"

namespace mstrain {

// Both return at once: whoever reads what came, or writes what is on its way, waits for it on the device. `x` is dense. The event
// is that of its being gone.
Event send_tensor(DeviceLinks& links, const Tensor& x, int peer, std::string_view what);
Tensor receive_tensor(DeviceLinks& links, const TensorType& type, int peer, std::string_view what);

}  // namespace mstrain
