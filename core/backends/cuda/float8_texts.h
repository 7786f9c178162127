// What products in 8 bits are prepared by.
#pragma once

#include "core/backends/cuda/text.h"

namespace mstrain::cuda {

// u8[columns, rows] of dense u8[rows, columns]; both are multiples of 16.
KernelText print_turned(const KernelRequest& request);

}  // namespace mstrain::cuda
