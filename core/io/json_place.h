// Where in a JSON text an error lies that is found in its values.
#pragma once

#include <cstddef>
#include <string_view>

namespace mstrain {

// The offset at which `key` first stands between quotes; 0 where the text spells it otherwise.
size_t place_of_key(std::string_view text, std::string_view key);

}  // namespace mstrain
