// Strings between quotes, as Python spells them.
#pragma once

#include <string>
#include <string_view>

namespace mstrain::jinja {

// What `inside`, the part between the quotes, stands for. UTF-8, as the result is. Throws Error for an escape that is none.
std::string unescaped(std::string_view inside);

void append_code_point(char32_t code, std::string& text);

}  // namespace mstrain::jinja
