// Numbers as people and models write them.
#pragma once

#include <optional>
#include <string_view>

namespace mstrain {

// The value of the last number that a text holds; nothing where there is none, or it is beyond what a double holds. A number is as long as it can
// be: digits, which commas may cut into thousands, or a point before digits; a point and digits; an exponent; perhaps over another one, `3/4`.
// A minus (- or U+2212) belongs to it unless a digit is before that. What has two points (1.2.3) or slashes is none.
std::optional<double> last_number(std::string_view text);

}  // namespace mstrain
