// Kernels of the collective operations for back ends whose kernels run on the host.
#pragma once

#include "core/ir/backend.h"

namespace mstrain {

// Enters them into a table.
void register_collectives(Backend& backend);

}  // namespace mstrain
