// Bytes as text of 64 letters (RFC 4648), for pages that hold pictures.
#pragma once

#include <string>
#include <string_view>

namespace mstrain {

std::string to_base64(std::string_view bytes);

}  // namespace mstrain
