// Loops over many environments, each compiled once for each instruction set; the same bits from all of them.
#pragma once

#include <cstdint>

namespace mstrain::reinforcement {

// Structure of arrays. Lists of states are padded to a multiple of kPadding; the others have n elements.
struct PhysicsArrays {
  int64_t n = 0;
  double* const* state = nullptr;     // [kState][n]
  const int64_t* discrete = nullptr;  // [n]
  const double* box = nullptr;        // [n]
  const int32_t* elapsed = nullptr;   // [n]
  float* rewards = nullptr;           // [n]
  uint8_t* terminated = nullptr;      // [n]
};
inline constexpr int64_t kPadding = 8;

struct PhysicsLoops {
  // Whether a state has left the range of the fast functions (P::kMostState).
  bool (*step)(const PhysicsArrays& arrays);
  // [n, kObservation] of the environments from `first` on; `first` is a multiple of kPadding.
  void (*observe)(double* const* state, int64_t first, int64_t n, float* out);
};

struct LaneLoops {
  PhysicsLoops cartpole, acrobot, mountain_car, mountain_car_continuous, pendulum;
  // Whether all are in 0 … limit - 1.
  bool (*are_below)(const int64_t* values, int64_t n, int64_t limit);
  // elapsed += 1; truncated = elapsed >= limit (0: none). Whether any environment is at its end.
  bool (*advance)(int32_t* elapsed, int64_t n, int32_t limit, const uint8_t* terminated,
                  uint8_t* truncated);
  bool (*are_finite)(const float* values, int64_t n);
};

// Of the instruction set of isa().
const LaneLoops& lane_loops();

namespace baseline {
extern const LaneLoops kLoops;
}
namespace avx2 {
extern const LaneLoops kLoops;
}
namespace avx512 {
extern const LaneLoops kLoops;
}

}  // namespace mstrain::reinforcement
