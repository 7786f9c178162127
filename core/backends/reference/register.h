// The reference backend: slow and obvious kernels that accumulate in double, the oracle of all
// others. Composites have no kernel here: they run by decomposition.
#pragma once

#include "core/ir/backend.h"

namespace mstrain {

// Adds the back end "reference"; once, after register_all_ops().
const Backend& add_reference_backend();

}  // namespace mstrain
