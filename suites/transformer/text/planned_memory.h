// What a program over a model's weights takes in memory, by its plan.
#pragma once

#include <functional>
#include <vector>

#include "core/tensor/jit.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

struct PlannedMemory {
  Types results;
  int64_t bytes = 0;  // of these and of what lies between, beside weights and other inputs
};

// Of f(weights, inputs) in the current context, with weights of type `dtype`. `donated`: by input, those whose memory results may take over.
PlannedMemory planned_memory(
    const CausalModel& model, Dtype dtype, const Types& inputs, const std::vector<bool>& donated,
    const std::function<Tensors(const Params&, std::span<const Tensor>)>& f);

}  // namespace mstrain
