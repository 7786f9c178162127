// Networks of agents: small perceptrons over observations. n: rows, o: numbers of an observation.
#pragma once

#include <string_view>

#include "core/nn/layers.h"
#include "suites/reinforcement/algorithms/network_config.h"
#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

// x[n, o] through the hidden layers: [n, last width]. Weights have deviation sqrt(2 / inputs), biases are zero.
Tensor hidden_layers(const Params& p, Tensor x_no, const NetworkConfig& config);

// The hidden layers in the folder `p`, and a last one of `outputs` whose weights have deviation gain / sqrt(inputs): small ones
// make a policy begin undecided (Andrychowicz et al. 2021, "What matters for on-policy deep actor-critic methods").
Tensor perceptron(const Params& p, const Tensor& x_no, const NetworkConfig& config, int64_t outputs,
                  double gain);

// What a GRU in the folder `p` remembers after x[n, o], of memory[n, units] in front of it.
Tensor remembered(const Params& p, const Tensor& x_no, const Tensor& memory_nm);
// And after each of T steps of r rows, x[T r, o] by time: [T r, units]. memory[r, units] is in front of the first; `kept` [T, r]: 0 in front
// of steps that begin an episode, else 1.
Tensor remembered(const Params& p, const Tensor& x_no, const Tensor& memory_rm,
                  const Tensor& kept_tr);

// Throws ConfigError for an environment whose agents take turns or have actions that are not always legal.
void refuse_games(const EnvSpec& env);
// And, where a network is of policy and value both, for what values alone may see; and for a memory, where it has no use for one.
void refuse_team_view(const EnvSpec& env);
void refuse_memory(const NetworkConfig& config);

}  // namespace mstrain::reinforcement
