#include "core/backends/cpu/register.h"

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/threads.h"
#include "core/ops/collective_kernels.h"

namespace mstrain {
namespace cpu {

Backend& table() {
  static Backend& it = add_backend(
      {.name = "cpu",
       .limits =
           {.fused_row = kLongestFusedRow,
            // More operands than that are not streams that a processor follows; more members are not tiles that a
            // cache holds.
            .fused_inputs = 64,
            .fused_members = 128,
            // For GPT-2 small on 1,024 tokens (206 MB) parts of 50 and 100 MB take no longer than the whole, parts of
            // 25 MB 1.5 % of a step, parts of 13 MB 9 %. Products run best on whole tiles of rows.
            .chunk_bytes = int64_t{64} << 20,
            .chunk_rows = 16,
            .packed_bytes = 1'000'000'000},
       .prepare_threads = prepare_threads});
  return it;
}

}  // namespace cpu

const Backend& add_cpu_backend(const Backend& fallback) {
  cpu::table().fallback = &fallback;
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
  cpu::register_float8();
  cpu::register_adamw_stored();
  cpu::register_linalg();
  cpu::register_eigh();
  cpu::register_qr();
  cpu::register_svd();
  cpu::register_fft();
  cpu::register_search();
  cpu::register_table_rows();
  register_collectives(cpu::table());
  return cpu::table();
}

}  // namespace mstrain
