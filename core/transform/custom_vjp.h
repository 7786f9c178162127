// Functions with a derivative of their own.
#pragma once

#include "core/transform/record.h"

namespace mstrain {

// Cotangents as the backward function gave them, one for each input: zeros where it gave an empty tensor. Throws where
// their number or types are not those of the inputs. Errors, here and below, name `where`.
Tensors complete_cotangents(Tensors given, std::span<const TensorType> inputs,
                            const SourceLocation& where);

// The outputs of the recorded functions; `outputs` of the forward program's results are not residuals.
Tensors custom_vjp_recorded(const GraphPtr& forward, const Tensors& forward_captures,
                            const GraphPtr& backward, const Tensors& backward_captures,
                            size_t outputs, const Tensors& inputs, const SourceLocation& where);

// custom_vjp(forward, backward)(x, y, …):
//   forward(x, y, …) -> pair(result, residuals): trees; the call's value is the result;
//   backward(residuals, cotangent) -> cotangent of x, or a tuple of those of x, y, …: trees like the arguments, in which
//   an empty Tensor is zero. cotangent is a tree like the result.
// Reverse mode only. Its second derivative goes through backward and, by way of the residuals, through forward. Both are
// recorded, so that they cannot read values. Tensors that they use from outside are constants; where such a tensor may
// depend on what is being differentiated, it is an error that asks for an argument.
template <class Forward, class Backward>
auto custom_vjp(Forward forward, Backward backward,
                const SourceLocation& where = SourceLocation::current()) {
  return [forward = std::move(forward), backward = std::move(backward),
          where](const auto&... given) {
    const auto arguments = std::make_tuple(given...);
    const Tensors inputs = flatten_tree(arguments);
    const Types input_types = types_of(inputs);
    const auto ahead = record(forward, arguments, input_types);
    const auto& [result, residuals] = *ahead.form;
    const size_t outputs = flatten_tree(result).size();

    Types types;  // of the residuals, then of the cotangents
    for (const Value& value : ahead.program->outputs()) {
      types.push_back(ahead.program->type(value));
    }
    std::rotate(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(outputs), types.end());
    const auto flat_backward = [&](const auto& kept, const auto& cotangent) {
      return complete_cotangents(flatten_tree(backward(kept, cotangent)), input_types, where);
    };
    const auto back = record(flat_backward, std::make_tuple(residuals, result), types);
    return with_leaves(result, custom_vjp_recorded(ahead.program, ahead.captures, back.program,
                                                   back.captures, outputs, inputs, where));
  };
}

}  // namespace mstrain
