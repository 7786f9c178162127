// Operations without inputs: constants. Declared for users in build.h.
#pragma once

#include "core/ops/build.h"

namespace mstrain {

std::span<const OpDef> source_ops();

}  // namespace mstrain
