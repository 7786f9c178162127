// What kernels of this machine reach in transformers' layers, forward and backward, while all ranks that it has work.
#pragma once

#include <optional>

#include "core/comm/communicator.h"

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

// Operations and bytes a second of products that do one after the other. No bytes: they take no time of their own.
struct ProductRates {
  double sums = 0;
  std::optional<double> operands;
};

struct LayerTimes {
  AttentionTime attention;
  ProductRates products;
  double memory = 0;  // bytes a second
  double launch = 0;  // seconds between two kernels
};

// For all ranks of `world`, with the current context of each; of a rank that does not work, nothing. By the clock of the rank that is
// done last: each step of a run waits for it. `peak` is of operations a second. Takes some two seconds.
LayerTimes measure_layers(Communicator& world, bool works, double peak);

}  // namespace mstrain
