// Bytes as text of 64 letters (RFC 4648): pictures of pages, numbers of states.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mstrain {

std::string to_base64(std::string_view bytes);
// None of what to_base64() does not write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace mstrain
