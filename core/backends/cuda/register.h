// Registers the back end of NVIDIA's devices.
#pragma once

namespace mstrain {

// The table `cuda`. It runs no program yet; what keeps it from doing so is asked of the driver when somebody wants to know.
void add_cuda_backend();

}  // namespace mstrain
