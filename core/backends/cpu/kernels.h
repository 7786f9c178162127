// Registration of each family of kernels, and the two kernels that others are made with.
#pragma once

#include "core/ir/backend.h"

namespace mstrain::cpu {

// The back end's own, which is being filled.
Backend& table();

// Longer rows do not stay in the cache between two passes over them.
inline constexpr int64_t kLongestFusedRow = 16384;

void register_elementwise();
void register_fused();
void register_copy();
void register_movement();
void register_source();
void register_reduce();
void register_scan();  // argmax, argmin, cumulative ones
void register_dot_general();
void register_index();
void register_sort();
void register_conv();
void register_pool();
void register_random();
void register_softmax();
void register_norm();
void register_rotary();
void register_cross_entropy();
void register_attention();
void register_attention_grad();
void register_adamw();
void register_rounding();
void register_coded_weight();
void register_float8();
void register_adamw_stored();
void register_linalg();
void register_eigh();
void register_qr();
void register_svd();
void register_fft();
void register_search();
void register_table_rows();

// A dense copy of a view, in its own type or in another one.
Kernel copy_kernel(const ViewType& view, int threads);
Kernel cast_kernel(const ViewType& view, Dtype dtype, int threads);

// Runs a kernel of one input and one output.
inline void run_unary(const Kernel& kernel, const void* input, void* output,
                      void* workspace = nullptr) {
  void* const in = const_cast<void*>(input);
  kernel.run({std::span(&in, 1), std::span(&output, 1), workspace});
}

}  // namespace mstrain::cpu
