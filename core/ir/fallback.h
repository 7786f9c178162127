// Which backend's kernel serves a request.
#pragma once

#include "core/ir/kernel.h"

namespace mstrain {

// The backend's kernel for a request; null where it cannot serve it.
const KernelEntry* usable_kernel(Backend backend, const KernelRequest& request);

// The reference's kernel, for a request that `backend` cannot serve. It is slow: the first time for an operation and a type of
// elements a warning says so. Throws Error where there is none.
const KernelEntry& fallback_kernel(Backend backend, const KernelRequest& request);

}  // namespace mstrain
