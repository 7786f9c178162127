#include "core/backends/cpu/loops.h"

namespace mstrain::cpu {

#define MSTRAIN_DECLARE_LOOPS(isa)                                                       \
  namespace isa {                                                                        \
  extern const ElementwiseLoops kElementwiseLoops;                                       \
  extern const RowLoops<float> kRowLoopsF32;                                             \
  extern const RowLoops<double> kRowLoopsF64;                                            \
  extern const BlockLoops kBlockLoops;                                                   \
  extern const OtherLoops kOtherLoops;                                                   \
  extern const StorageLoops kStorageLoops;                                               \
  extern const CodedLoops kCodedLoops;                                                   \
  const Loops kLoops = {&kElementwiseLoops, &kRowLoopsF32,  &kRowLoopsF64, &kBlockLoops, \
                        &kOtherLoops,       &kStorageLoops, &kCodedLoops};               \
  }
MSTRAIN_DECLARE_LOOPS(baseline)
#if defined(__x86_64__)
MSTRAIN_DECLARE_LOOPS(avx2)
MSTRAIN_DECLARE_LOOPS(avx512)
#endif

const Loops* loops_for(Isa isa) {
  if (!has_isa(isa)) {
    return nullptr;
  }
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) {
    return &avx512::kLoops;
  }
  if (isa == Isa::kAvx2) {
    return &avx2::kLoops;
  }
#endif
  return &baseline::kLoops;
}

const Loops& loops() {
  static const Loops& chosen = *loops_for(isa());
  return chosen;
}

}  // namespace mstrain::cpu
