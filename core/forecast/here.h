// The machine that this program runs on, described as a cluster's file describes others: rates of its own kernels, and of exchanges
// between its ranks, measured when it is asked.
#pragma once

#include "core/comm/communicator.h"
#include "core/forecast/cluster.h"
#include "core/runtime/context.h"

namespace mstrain {

// Seconds of one of attention's operations, and of a score beside its operations.
struct AttentionTime {
  double of_operation = 0;
  double of_score = 0;
};

// Of two layers, the smaller with more scores an operation: seconds of an operation with its scores.
struct MeasuredAttention {
  double seconds = 0;
  double scores_an_operation = 0;
};

// What both tell, where other work of the machine came between them too: no score takes less than nothing, and no operation less than
// `least` seconds, or than measured where that is less.
AttentionTime split_attention(const MeasuredAttention& larger, const MeasuredAttention& smaller,
                              double least);

// For the ranks of `world`, all on this machine, which all call it; each gets the same description. Those that have a processor work
// at once, with the threads of `context`; products' and memory's `achieved` are what the forward and backward pass of a transformer's
// layer reach, by the clock of the rank that is done last: each step of a run waits for it. Takes some four seconds.
Cluster measure_here(const Context& context, Communicator& world);

// The same for so many ranks that are threads of this process, each with its share of the processors.
Cluster measure_here(int ranks);

}  // namespace mstrain
