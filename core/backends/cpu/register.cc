#include "core/backends/cpu/register.h"

#include "core/backends/cpu/kernels.h"

namespace mstrain {

void register_cpu_kernels() {
  cpu::register_elementwise();
  cpu::register_fused();
  cpu::register_copy();
  cpu::register_movement();
  cpu::register_source();
  cpu::register_reduce();
  cpu::register_scan();
  cpu::register_dot_general();
  cpu::register_index();
  cpu::register_sort();
  cpu::register_conv();
  cpu::register_pool();
  cpu::register_random();
  cpu::register_softmax();
  cpu::register_norm();
  cpu::register_rotary();
  cpu::register_cross_entropy();
  cpu::register_attention();
  cpu::register_attention_grad();
  cpu::register_adamw();
  cpu::register_rounding();
  cpu::register_coded_weight();
  cpu::register_adamw_stored();
  cpu::register_linalg();
  cpu::register_eigh();
  cpu::register_qr();
  cpu::register_svd();
  cpu::register_fft();
  cpu::register_search();
}

}  // namespace mstrain
