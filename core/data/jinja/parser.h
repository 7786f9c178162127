// Reads a template.
#pragma once

#include <string_view>

#include "core/data/jinja/syntax.h"

namespace mstrain::jinja {

// Throws IoError "<name>:<line>: ..." for what is no template, or a tag that is not supported. No tree is deeper than
// kMaxDepth.
Body parse(std::string_view source, std::string_view name);

inline constexpr int kMaxDepth = 200;

}  // namespace mstrain::jinja
