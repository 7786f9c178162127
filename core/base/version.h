// "0.1.0"
#pragma once

#include <string_view>

namespace mstrain {

std::string_view version();

}  // namespace mstrain
