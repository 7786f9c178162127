// Runs of AlphaZero: algorithm.type alphazero in a configuration, and the commands arena and play.
#pragma once

#include "core/train/task.h"
#include "suites/reinforcement/alphazero/config.h"
#include "suites/reinforcement/alphazero/network.h"

namespace mstrain::alphazero {

// Cross-entropy with the search's policy, and value_weight times the squared error of the value.
TrainTask task_of(const PolicyValueNetwork& network, double value_weight);

// Makes the run and the commands known.
void add_alphazero();

}  // namespace mstrain::alphazero
