// The fast backend for x86-64 processors: vector loops chosen for the machine at run time, oneDNN matrix products and
// convolutions, OpenMP. Results are bit-reproducible for one thread count. Operations without a kernel here run on the
// reference backend.
#pragma once

namespace mstrain {

// Fills the table of Backend::kCpu; once, after register_all_ops().
void register_cpu_kernels();

}  // namespace mstrain
