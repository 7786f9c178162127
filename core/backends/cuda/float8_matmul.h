// Products of floats of 8 bits by cuBLASLt, on cards from sm_89 on.
#pragma once

#include "core/ir/kernel.h"

namespace mstrain::cuda {

// Whether it has such a product: of two matrices, all of whose sizes are multiples of 16.
bool has_float8_matmul(const KernelRequest& request);

// The library wants what is summed over to be dense in both: operands that lie the other way are turned first. Throws PlanError where
// the card has no such products.
Kernel prepare_float8_matmul(const KernelRequest& request);

}  // namespace mstrain::cuda
