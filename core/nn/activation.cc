#include "core/nn/activation.h"

#include "core/ops/elementwise.h"

namespace mstrain {

Tensor activate(Activation activation, const Arg& x) {
  switch (activation) {
    case Activation::kGelu: return gelu(x);
    case Activation::kGeluNew: return gelu_tanh(x);
    case Activation::kRelu: return relu(x);
    case Activation::kSilu: return silu(x);
    case Activation::kTanh: return tanh(x);
  }
  fail("activation {} is unknown", static_cast<int>(activation));
}

std::string_view name_of(Activation activation) {
  constexpr std::string_view kNames[] = {"gelu", "gelu_new", "relu", "silu", "tanh"};
  return kNames[static_cast<size_t>(activation)];
}

}  // namespace mstrain
