// The null back end: plans and allocates like another one, and computes nothing.
#pragma once

#include "core/ir/backend.h"

namespace mstrain {

// Adds the back end "null" with the kernels of `like`, whose table is filled.
void add_null_backend(const Backend& like);

}  // namespace mstrain
