// The arithmetic of Gumbel search (Danihelka et al., "Policy improvement by planning with Gumbel", ICLR 2022), on plain
// arrays so that trees over games and over learned models share it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mstrain::mcts {

struct GumbelScale {
  float visit = 50;    // c_visit
  float scale = 0.1F;  // c_scale
  float spread =
      0;  // of values, from which on they are rescaled; closer ones keep their distance in units of it
};

// Sequential halving: entry t is the number of visits that the action chosen at simulation t must have so far. `considered`
// actions take part at first, half as many after each round.
std::vector<uint32_t> halving_schedule(uint32_t considered, uint32_t simulations);

// The value that stands for unvisited actions: the network's value mixed with the visited actions' means, these weighed by
// their priors (the paper's appendix D).
float mixed_value(float raw_value, float visits, float prior_value_sum, float visited_prior);

// What values of a node that lie so far apart are divided by: never 0.
float value_range(float spread, const GumbelScale& scale);

// sigma(completed q) for each action: values rescaled to [0, 1] over the node, times (c_visit + most visits) * c_scale.
// `means` of unvisited actions (visits 0) are taken as `mixed`.
void transform_values(std::span<const uint32_t> visits, std::span<const float> means, float mixed,
                      const GumbelScale& scale, std::span<float> out);

// out = softmax(logits); in place where they are the same.
void softmax(std::span<const float> logits, std::span<float> out);

}  // namespace mstrain::mcts
