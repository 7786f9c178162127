// The processor state of the threads that kernels run on.
#pragma once

namespace mstrain::cpu {

// Makes the calling thread and its OpenMP team of `threads` treat denormal numbers as zero, and its teams as large as they are asked to
// be. Throws as isa() does, and ConfigError where OpenMP starts fewer.
void prepare_threads(int threads);

}  // namespace mstrain::cpu
