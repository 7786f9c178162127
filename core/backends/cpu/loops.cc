#include "core/backends/cpu/loops.h"

#include <cstdlib>

namespace mstrain::cpu {

#define MSTRAIN_DECLARE_LOOPS(isa)                                          \
  namespace isa {                                                           \
  extern const ElementwiseLoops kElementwiseLoops;                          \
  extern const RowLoops<float> kRowLoopsF32;                                \
  extern const RowLoops<double> kRowLoopsF64;                               \
  extern const BlockLoops kBlockLoops;                                      \
  extern const OtherLoops kOtherLoops;                                      \
  extern const StorageLoops kStorageLoops;                                  \
  const Loops kLoops = {&kElementwiseLoops, &kRowLoopsF32, &kRowLoopsF64,   \
                        &kBlockLoops,       &kOtherLoops,  &kStorageLoops}; \
  }
MSTRAIN_DECLARE_LOOPS(baseline)
#if defined(__x86_64__)
MSTRAIN_DECLARE_LOOPS(avx2)
MSTRAIN_DECLARE_LOOPS(avx512)
#endif

const Loops* loops_for(std::string_view isa) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == "avx2" && has_avx2) {
    return &avx2::kLoops;
  }
  if (isa == "avx512" && has_avx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return &avx512::kLoops;
  }
#endif
  return isa == "baseline" ? &baseline::kLoops : nullptr;
}

const Loops& loops() {
  static const Loops& chosen = [&]() -> const Loops& {
    const char* const asked = std::getenv("MSTRAIN_CPU_ISA");
    if (const Loops* found = asked != nullptr ? loops_for(asked) : nullptr) {
      return *found;
    }
    for (const char* isa : {"avx512", "avx2"}) {
      if (const Loops* found = loops_for(isa)) {
        return *found;
      }
    }
    return baseline::kLoops;
  }();
  return chosen;
}

}  // namespace mstrain::cpu
