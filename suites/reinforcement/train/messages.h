// Bytes between ranks.
#pragma once

#include <string>

#include "core/comm/communicator.h"

namespace mstrain::reinforcement {

// Of a message that the caller keeps.
inline Elements octets(std::string& message) {
  return {message.data(), std::ssize(message), Dtype::kU8};
}

// A message of any size.
void send_text(Communicator& ranks, std::string bytes, int peer, const char* what);
std::string receive_text(Communicator& ranks, int peer, const char* what);

}  // namespace mstrain::reinforcement
