#include "suites/reinforcement/train/messages.h"

namespace mstrain::reinforcement {

void send_text(Communicator& ranks, std::string bytes, int peer, const char* what) {
  int64_t size = std::ssize(bytes);
  ranks.send({&size, 1, Dtype::kI64}, peer, what).wait();
  ranks.send(octets(bytes), peer, what).wait();
}

std::string receive_text(Communicator& ranks, int peer, const char* what) {
  int64_t size = 0;
  ranks.receive({&size, 1, Dtype::kI64}, peer, what).wait();
  std::string bytes(static_cast<size_t>(size), '\0');
  ranks.receive(octets(bytes), peer, what).wait();
  return bytes;
}

}  // namespace mstrain::reinforcement
