// What a run in fp8 remembers: the largest magnitudes of the last steps, from which the units of the next one follow (delayed scaling,
// Micikevicius et al. 2022; NVIDIA's Transformer Engine).
//
// A maximum depends on no order: it is the same for any number of ranks, and of micro-batches but for what those compute.
#pragma once

#include <vector>

#include "core/optim/precision_config.h"
#include "core/tensor/params.h"

namespace mstrain {

// Of the weights, by their places, those whose products are made in fp8: weights of layers that products alone read, of which what is
// summed over and what comes out are multiples of 16, as tensor cores of 8 bits want them. Weights in codes are none.
std::vector<size_t> float8_weights(std::span<const ParamSpec> specs);

// f32 [1, weights, 3] of three f32 [] for each.
Tensor magnitudes_of(Tensors numbers);
// Part of the state of a run, f32 [precision.fp8_history, weights, 3], the last step first: magnitudes of what a weight is multiplied
// by, of it, and of the gradient of their product. 0: none is known.
Tensor first_magnitudes(const PrecisionConfig& config, size_t weights);
// The largest of each, f32 [weights, 3].
Tensor expected_magnitudes(const Tensor& history);
// After a step with these, f32 [weights, 3]. What is no finite number is not remembered.
Tensor next_magnitudes(const Tensor& history, const Tensor& most);

}  // namespace mstrain
