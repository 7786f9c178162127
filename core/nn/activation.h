// Activations by name, as configurations give them.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

// gelu_new: GPT-2's tanh approximation
enum class Activation { kGelu, kGeluNew, kRelu, kSilu, kTanh };

Tensor activate(Activation activation, const Arg& x);

// The name in configurations, as Hugging Face spells it: "gelu_new".
std::string_view name_of(Activation activation);

}  // namespace mstrain
