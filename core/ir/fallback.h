// Which back end's kernel serves a request.
#pragma once

#include "core/ir/backend.h"

namespace mstrain {

// The back end's own kernel for a request; null where it cannot serve it.
const KernelEntry* usable_kernel(const Backend* backend, const KernelRequest& request);

// The kernel of `backend->fallback`, for a request that `backend` itself cannot serve. It is slow: the first time for an operation and a
// type of elements a warning says so. Throws Error where there is none, or no fallback.
const KernelEntry& fallback_kernel(const Backend* backend, const KernelRequest& request);

}  // namespace mstrain
