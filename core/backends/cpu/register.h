// The fast backend for x86-64 processors: vector loops chosen for the machine at run time, oneDNN matrix products and
// convolutions, OpenMP. Results are bit-reproducible for one thread count. Operations without a kernel here are left to
// `fallback`.
#pragma once

#include "core/ir/backend.h"

namespace mstrain {

// Adds the back end "cpu"; once, after register_all_ops().
const Backend& add_cpu_backend(const Backend& fallback);

}  // namespace mstrain
