// What a step of the physics of classic control reads and writes.
#pragma once

#include <numbers>

#include "suites/reinforcement/env/lanes/lanes.h"

namespace mstrain::reinforcement {

// P is one of the structs of physics beside this file: kState, kObservation, kDiscrete; step(), observe().
template <class L, class P>
struct PhysicsStep {
  typename L::V state[P::kState];
  typename L::I discrete;  // the action, where it is discrete
  typename L::V box;       // and where it is a number
  typename L::I first;     // whether it is the first step of the episode
  typename L::V reward;
  typename L::I terminated;
};

}  // namespace mstrain::reinforcement
