// What one run of a pipeline holds for programs to come, and sends.
#pragma once

#include <map>
#include <optional>

#include "core/train/device_messages.h"
#include "core/train/pipeline.h"

namespace mstrain {

struct Pipeline::Run {
  // A value, and how many programs of this rank have not read it.
  struct Held {
    Tensor value;
    int readers = 0;
    std::optional<HostWrite> coming = {};  // from another rank
    Event arrived = {};
  };
  struct Sent {
    size_t due;
    int64_t bytes;
    std::optional<HostRead> read;  // through the host
    Tensor value;                  // else: whoever takes its memory waits on the device
    Event gone;
    void wait() const {
      if (read) {
        gone.wait();
      }
    }
  };
  Communicator& ranks;
  DeviceLinks* links = device_links(ranks);       // null: through the host
  std::map<std::pair<int, int>, Held> held = {};  // by link and micro-batch
  std::vector<Sent> sent = {};
  std::vector<size_t> asked;  // by peer: how many of its messages
};

}  // namespace mstrain
