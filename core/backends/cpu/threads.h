// The processor state of the threads that kernels run on.
#pragma once

namespace mstrain::cpu {

// Makes the calling thread and its OpenMP team of `threads` treat denormal numbers as zero. Throws as isa() does.
void prepare_threads(int threads);

}  // namespace mstrain::cpu
