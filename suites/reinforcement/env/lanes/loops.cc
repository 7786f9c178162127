#include "suites/reinforcement/env/lanes/loops.h"

#include <cstddef>
#include <utility>

#include "suites/reinforcement/env/lanes/acrobot.h"
#include "suites/reinforcement/env/lanes/cartpole.h"
#include "suites/reinforcement/env/lanes/mountain_car.h"
#include "suites/reinforcement/env/lanes/pendulum.h"

#ifndef MSTRAIN_ISA
#error "MSTRAIN_ISA must name the instruction set that this source is compiled for"
#endif

namespace mstrain::reinforcement::MSTRAIN_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 8;
#elif defined(__AVX__)
constexpr int kWidth = 4;
#else
constexpr int kWidth = 2;
#endif
static_assert(kPadding % kWidth == 0);

using L = Lanes<kWidth>;
using V = L::V;
using I = L::I;
using F = L::F;
using B = L::B;

// Environments i … i + kWidth - 1. Whether one has left the range.
template <class P>
MSTRAIN_LANES I step_block(const PhysicsArrays& a, int64_t i) {
  typedef int32_t Elapsed __attribute__((vector_size(kWidth * 4)));
  PhysicsStep<L, P> io;
  for (int k = 0; k < P::kState; ++k) {
    io.state[k] = load_lanes<V>(a.state[k] + i);
  }
  if constexpr (P::kDiscrete) {
    io.discrete = load_lanes<I>(a.discrete + i);
  } else {
    io.box = load_lanes<V>(a.box + i);
  }
  io.first = __builtin_convertvector(load_lanes<Elapsed>(a.elapsed + i), I) == 0;
  P::template step<L>(io);
  I beyond = {};
  for (int k = 0; k < P::kState; ++k) {
    store_lanes(a.state[k] + i, io.state[k]);
    beyond |= (io.state[k] > P::kMostState) | (io.state[k] < -P::kMostState);
  }
  store_lanes(a.rewards + i, __builtin_convertvector(io.reward, F));
  store_lanes(a.terminated + i, __builtin_convertvector(io.terminated & 1, B));
  return beyond;
}

template <class P>
bool step(const PhysicsArrays& a) {
  const int64_t whole = a.n / kWidth * kWidth;
  I beyond = {};
  for (int64_t i = 0; i < whole; i += kWidth) {
    beyond |= step_block<P>(a, i);
  }
  if (const int64_t rest = a.n - whole; rest > 0) {  // states are padded, all else is not
    int64_t discrete[kWidth] = {};
    double box[kWidth] = {};
    int32_t elapsed[kWidth] = {};
    float rewards[kWidth];
    uint8_t terminated[kWidth];
    double* state[P::kState];
    for (int k = 0; k < P::kState; ++k) {
      state[k] = a.state[k] + whole;
    }
    for (int64_t i = 0; i < rest; ++i) {
      discrete[i] = P::kDiscrete ? a.discrete[whole + i] : 0;
      box[i] = P::kDiscrete ? 0 : a.box[whole + i];
      elapsed[i] = a.elapsed[whole + i];
    }
    const PhysicsArrays last{rest, state, discrete, box, elapsed, rewards, terminated};
    I beyond_last = step_block<P>(last, 0);
    for (int64_t i = 0; i < rest; ++i) {
      a.rewards[whole + i] = rewards[i];
      a.terminated[whole + i] = terminated[i];
      beyond[0] |= beyond_last[i];
    }
  }
  return any_lane(beyond);
}

// a0 b0 a1 b1 … for pieces of `piece` numbers, from the lower or the upper halves.
template <int piece, bool is_upper>
MSTRAIN_LANES F interleaved(F a, F b) {
  return [&]<size_t... k>(std::index_sequence<k...>) __attribute__((always_inline)) {
    constexpr auto from = [](int i) {
      const int position = i / piece / 2 * piece + i % piece + (is_upper ? kWidth / 2 : 0);
      return i / piece % 2 == 0 ? position : kWidth + position;
    };
    return __builtin_shufflevector(a, b, from(static_cast<int>(k))...);
  }
  (std::make_index_sequence<kWidth>());
}

// Columns of kWidth rows to rows of two or four numbers.
MSTRAIN_LANES void store_rows(const F (&columns)[2], float* out) {
  store_lanes(out, interleaved<1, false>(columns[0], columns[1]));
  store_lanes(out + kWidth, interleaved<1, true>(columns[0], columns[1]));
}
MSTRAIN_LANES void store_rows(const F (&columns)[4], float* out) {
  const F left[2] = {interleaved<1, false>(columns[0], columns[1]),
                     interleaved<1, true>(columns[0], columns[1])};
  const F right[2] = {interleaved<1, false>(columns[2], columns[3]),
                      interleaved<1, true>(columns[2], columns[3])};
  for (int half = 0; half < 2; ++half) {
    float* to = out + half * 2 * kWidth;
    if constexpr (kWidth == 2) {  // a piece is all that a register holds
      store_lanes(to, left[half]);
      store_lanes(to + kWidth, right[half]);
    } else {
      store_lanes(to, interleaved<2, false>(left[half], right[half]));
      store_lanes(to + kWidth, interleaved<2, true>(left[half], right[half]));
    }
  }
}

template <class P>
void observe(double* const* states, int64_t first, int64_t n, float* out) {
  constexpr int kO = P::kObservation;
  for (int64_t i = 0; i < n; i += kWidth) {
    V state[P::kState], seen[kO];
    for (int k = 0; k < P::kState; ++k) {
      state[k] = load_lanes<V>(states[k] + first + i);
    }
    P::template observe<L>(state, seen);
    if constexpr (kO == 4 || kO == 2) {
      if (n - i >= kWidth) {
        F columns[kO];
        for (int k = 0; k < kO; ++k) {
          columns[k] = __builtin_convertvector(seen[k], F);
        }
        store_rows(columns, out + i * kO);
        continue;
      }
    }
    float columns[kO][kWidth];
    for (int k = 0; k < kO; ++k) {
      store_lanes(columns[k], __builtin_convertvector(seen[k], F));
    }
    const int64_t rows = n - i < kWidth ? n - i : kWidth;
    if (rows == kWidth) {
      for (int j = 0; j < kWidth; ++j) {
        for (int k = 0; k < kO; ++k) {
          out[(i + j) * kO + k] = columns[k][j];
        }
      }
    } else {
      for (int64_t j = 0; j < rows; ++j) {
        for (int k = 0; k < kO; ++k) {
          out[(i + j) * kO + k] = columns[k][j];
        }
      }
    }
  }
}

template <class P>
constexpr PhysicsLoops kPhysics = {&step<P>, &observe<P>};

bool are_below(const int64_t* values, int64_t n, int64_t limit) {
  uint64_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<uint64_t>(values[i]);
    largest = value > largest ? value : largest;
  }
  return largest < static_cast<uint64_t>(limit) || n == 0;
}

bool advance(int32_t* __restrict elapsed, int64_t n, int32_t limit,
             const uint8_t* __restrict terminated, uint8_t* __restrict truncated) {
  const int32_t cut = limit == 0 ? INT32_MAX : limit;
  uint8_t ended = 0;
  for (int64_t i = 0; i < n; ++i) {
    elapsed[i] += 1;
    truncated[i] = elapsed[i] >= cut ? 1 : 0;
    ended |= static_cast<uint8_t>(truncated[i] | terminated[i]);
  }
  return ended != 0;
}

bool are_finite(const float* values, int64_t n) {
  float zero = 0;  // 0 times a number that is not finite is none
  for (int64_t i = 0; i < n; ++i) {
    zero += values[i] * 0.0F;
  }
  return zero == 0;
}

}  // namespace

const LaneLoops kLoops = {kPhysics<CartPole>,
                          kPhysics<Acrobot>,
                          kPhysics<MountainCar>,
                          kPhysics<MountainCarContinuous>,
                          kPhysics<Pendulum>,
                          &are_below,
                          &advance,
                          &are_finite};

}  // namespace mstrain::reinforcement::MSTRAIN_ISA
