// From the memory of one rank's device to another's, without the host between: what a communicator may have beside its own.
#pragma once

#include "core/comm/communicator.h"

namespace mstrain {

// Between each two ranks of a group. Elements lie in the devices' memory, and begin to travel when `after` is complete; the event
// is of the device. Messages of two ranks match by their order, those of one direction apart from those of the other, so that
// neither waits for the other. What is late or gone is as in communicator.h.
class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;
  virtual bool are_there() const = 0;
  virtual Event send_on_device(Elements in, int peer, const Event& after,
                               std::string_view what) = 0;
  virtual Event receive_on_device(Elements out, int peer, const Event& after,
                                  std::string_view what) = 0;
};

// Those of a group; null: it has none.
inline DeviceLinks* device_links(Communicator& group) {
  auto* const links = dynamic_cast<DeviceLinks*>(&group);
  return links != nullptr && links->are_there() ? links : nullptr;
}

}  // namespace mstrain
