// The processor state of the threads that kernels run on.
#pragma once

namespace mstrain {

// Makes the calling thread and its OpenMP team of `threads` treat denormal numbers as zero. Probabilities and moments
// near zero are denormal, and arithmetic on them is some hundred times slower. Throws as isa() does.
void prepare_threads(int threads);

}  // namespace mstrain
