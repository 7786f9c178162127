#include "core/transform/grad.h"

#include <algorithm>

#include "core/ops/elementwise.h"

namespace mstrain {

Differentiation::Differentiation() {
  if (Trace::innermost() == nullptr) {
    own_.emplace(Trace::Mode::kRecording);
  }
}

Tensors Differentiation::mark(std::span<const Tensor> inputs) {
  Trace& trace = *Trace::innermost();
  for (const Tensor& input : inputs) {
    trace.value_of(input);  // a constant becomes part of the trace, so that the mark is recorded
    marked_.push_back(mstrain::mark(trace.tensor_of(trace.value_of(input))));
  }
  return marked_;
}

Tensors Differentiation::pull(std::span<const Tensor> outputs,
                              std::span<const Tensor> cotangents) const {
  check(cotangents.size() == outputs.size(), "{} cotangents were given for a result of {} tensors",
        cotangents.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(!cotangents[i].defined() || cotangents[i].type() == outputs[i].type(),
          "a cotangent is {}, its value {}",
          cotangents[i].defined() ? to_string(cotangents[i].type()) : "",
          to_string(outputs[i].type()));
  }
  return or_zeros(pull_back(outputs, cotangents, marked_), marked_);
}

Tensors Differentiation::push(std::span<const Tensor> tangents,
                              std::span<const Tensor> outputs) const {
  check(tangents.size() == marked_.size(), "{} tangents were given for an argument of {} tensors",
        tangents.size(), marked_.size());
  for (size_t i = 0; i < tangents.size(); ++i) {
    check(!tangents[i].defined() || tangents[i].type() == marked_[i].type(),
          "a tangent is {}, its value {}",
          tangents[i].defined() ? to_string(tangents[i].type()) : "", to_string(marked_[i].type()));
  }
  return or_zeros(push_forward(marked_, tangents, outputs), outputs);
}

void check_differentiable(std::span<const Tensor> leaves, size_t place, const GradCaller& caller) {
  const auto counts = [](const Tensor& x) { return !x.defined() || is_floating(x.dtype()); };
  check(leaves.empty() || std::ranges::any_of(leaves, counts),
        "{}: argument {} is {}, by which nothing can be differentiated: expected floating-point "
        "numbers, "
        "at {}; cast() makes them",
        caller.name, place, leaves.empty() ? "" : to_string(leaves[0].type()),
        to_string(caller.where));
}

Tensor unit_cotangent(const Tensor& value, const GradCaller& caller) {
  check(value.defined() && is_floating(value.dtype()) && value.elements() == 1,
        "{}: the function must return one floating-point number, it returned {}, at {}",
        caller.name, value.defined() ? to_string(value.type()) : "an empty tensor",
        to_string(caller.where));
  return full(value.shape(), 1, value.dtype());
}

}  // namespace mstrain
