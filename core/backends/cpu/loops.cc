#include "core/backends/cpu/loops.h"

#include <cstdlib>
#include <string_view>

namespace mstrain::cpu {

#define MSTRAIN_DECLARE_LOOPS(isa)                                                      \
  namespace isa {                                                                       \
  extern const ElementwiseLoops kElementwiseLoops;                                      \
  extern const RowLoops<float> kRowLoopsF32;                                            \
  extern const RowLoops<double> kRowLoopsF64;                                           \
  extern const BlockLoops kBlockLoops;                                                  \
  extern const OtherLoops kOtherLoops;                                                  \
  const Loops kLoops = {&kElementwiseLoops, &kRowLoopsF32, &kRowLoopsF64, &kBlockLoops, \
                        &kOtherLoops};                                                  \
  }
MSTRAIN_DECLARE_LOOPS(baseline)
#if defined(__x86_64__)
MSTRAIN_DECLARE_LOOPS(avx2)
MSTRAIN_DECLARE_LOOPS(avx512)
#endif

namespace {

const Loops& choose() {
#if defined(__x86_64__)
  const char* const asked = std::getenv("MSTRAIN_CPU_ISA");
  const std::string_view limit = asked != nullptr ? asked : "avx512";
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  if (avx512 && limit == "avx512") {
    return avx512::kLoops;
  }
  if (avx2 && limit != "baseline") {
    return avx2::kLoops;
  }
#endif
  return baseline::kLoops;
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace mstrain::cpu
