// The machine that this program runs on, described as a cluster's file describes others: rates of its own kernels, and of exchanges
// between its ranks, measured when it is asked.
#pragma once

#include "core/comm/communicator.h"
#include "core/forecast/cluster.h"
#include "core/runtime/context.h"

namespace mstrain {

// For the ranks of `world`, all on this machine, which all call it; each gets the same description. Those that have a processor work
// at once, with the threads of `context`; products' and memory's `achieved` are those of measure_layers(). Takes some
// four seconds.
Cluster measure_here(const Context& context, Communicator& world);

// The same for so many ranks that are threads of this process, each with its share of the processors.
Cluster measure_here(int ranks);

}  // namespace mstrain
