#include "core/transform/grad.h"

#include <algorithm>

#include "core/ops/elementwise.h"

namespace mstrain {
namespace {

// Derivatives of the function's results or arguments, `what`, one for each of `values`.
void expect_derivatives(std::span<const Tensor> derivatives, std::span<const Tensor> values,
                        std::string_view what, std::string_view of, const Caller& caller) {
  check(derivatives.size() == values.size(), "{}: {} {}s were given for {} of {} tensors, at {}",
        caller.name, derivatives.size(), what, of, values.size(), to_string(caller.where));
  for (size_t i = 0; i < values.size(); ++i) {
    check(!derivatives[i].defined() || derivatives[i].type() == values[i].type(),
          "{}: a {} is {}, its value {}, at {}", caller.name, what,
          derivatives[i].defined() ? to_string(derivatives[i].type()) : "",
          to_string(values[i].type()), to_string(caller.where));
  }
}

void expect_results(std::span<const Tensor> outputs, const Caller& caller) {
  check(std::ranges::all_of(outputs, [](const Tensor& x) { return x.defined(); }),
        "{}: the function returned an empty tensor, at {}", caller.name, to_string(caller.where));
}

}  // namespace

Differentiation::Differentiation(const Caller& caller) : caller_(caller) {
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
  expect_results(outputs, caller_);
  expect_derivatives(cotangents, outputs, "cotangent", "a result", caller_);
  return or_zeros(pull_back(outputs, cotangents, marked_), marked_);
}

Tensors Differentiation::push(std::span<const Tensor> tangents,
                              std::span<const Tensor> outputs) const {
  expect_results(outputs, caller_);
  expect_derivatives(tangents, marked_, "tangent", "an argument", caller_);
  return or_zeros(push_forward(marked_, tangents, outputs), outputs);
}

void check_differentiable(std::span<const Tensor> leaves, size_t place, const Caller& caller) {
  const auto counts = [](const Tensor& x) { return is_floating(x.dtype()); };
  check(leaves.empty() || std::ranges::any_of(leaves, counts),
        "{}: argument {} is {}, by which nothing can be differentiated: expected floating-point "
        "numbers, "
        "at {}; cast() makes them",
        caller.name, place, leaves.empty() ? "" : to_string(leaves[0].type()),
        to_string(caller.where));
}

Tensor unit_cotangent(const Tensor& value, const Caller& caller) {
  check(value.defined() && is_floating(value.dtype()) && value.elements() == 1,
        "{}: the function must return one floating-point number, it returned {}, at {}",
        caller.name, value.defined() ? to_string(value.type()) : "an empty tensor",
        to_string(caller.where));
  return full(value.shape(), 1, value.dtype());
}

}  // namespace mstrain
