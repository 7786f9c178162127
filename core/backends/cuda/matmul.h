// Products by cuBLASLt.
#pragma once

#include <string>

#include "core/ir/kernel.h"

namespace mstrain::cuda {

// Why there is no library; empty: there is.
std::string missing_matmul();

// Whether prepare_matmul() makes what is asked: a product of floating types whose epilogues are, in this order and each at most once, a
// scale; a bias of the columns and an addend; an activation that the library has (relu, gelu_tanh). Of 16 bits also gelu_tanh of what is
// kept, and its derivative.
bool has_matmul(const KernelRequest& request);

// Operands that no matrix can be read from as they lie are copied first.
Kernel prepare_matmul(const KernelRequest& request);

}  // namespace mstrain::cuda
