// JSON from files that nobody has checked: nlohmann::json behind limits and errors that name file and offset.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace mstrain {

using Json = nlohmann::json;  // keys sorted; lookup in logarithmic time
using OrderedJson =
    nlohmann::ordered_json;  // keys in order of insertion: for output that people read

// Throws IoError "<name>: offset <n>: ..." for malformed text, invalid UTF-8, a duplicate key, nesting beyond `max_depth`,
// or anything but white space after the value. Numbers keep their kind: unsigned, negative, floating.
Json parse_json(std::string_view text, std::string_view name, int max_depth = 64);

}  // namespace mstrain
