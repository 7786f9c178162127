#include "core/transform/custom_vjp.h"

#include "core/ops/build.h"
#include "core/ops/control.h"

namespace mstrain {
namespace {

Tensors joined(std::span<const Tensor> a, std::span<const Tensor> b, std::span<const Tensor> c) {
  Tensors all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// A derivative with respect to it would silently be zero.
void expect_constants(std::string_view function, const Tensors& captures,
                      const SourceLocation& where) {
  for (const Tensor& tensor : captures) {
    check(!tensor.traced(),
          "custom_vjp: the {} function uses a tensor of type {} from outside, of which a "
          "derivative may be asked, at {}; pass it as an argument{}",
          function, to_string(tensor.type()), to_string(where),
          function == "backward" ? " and keep it in the residuals" : "");
  }
}

// `f` over values of `types`; all that it uses is among them.
GraphPtr closed(const Types& types, const std::function<Tensors(std::span<const Tensor>)>& f) {
  Tensors captures;
  GraphPtr program = trace_program(types, f, &captures);
  check(captures.empty(), "custom_vjp: {} tensors are not among the inputs", captures.size());
  return program;
}

}  // namespace

Tensors complete_cotangents(Tensors given, std::span<const TensorType> inputs,
                            const SourceLocation& where) {
  check(given.size() == inputs.size(),
        "custom_vjp: the backward function gives {} tensors for {} inputs, at {}", given.size(),
        inputs.size(), to_string(where));
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) {
      given[i] = zeros(inputs[i]);
    }
    check(given[i].type() == inputs[i],
          "custom_vjp: the backward function gives {} for input {} of {}, at {}",
          to_string(given[i].type()), i, to_string(inputs[i]), to_string(where));
  }
  return given;
}

Tensors custom_vjp_recorded(const GraphPtr& forward, const Tensors& forward_captures,
                            const GraphPtr& backward, const Tensors& backward_captures,
                            size_t outputs, const Tensors& inputs, const SourceLocation& where) {
  expect_constants("forward", forward_captures, where);
  expect_constants("backward", backward_captures, where);
  // Captures become inputs; those of the backward function are residuals as well.
  const Tensors all = joined(inputs, forward_captures, backward_captures);
  const size_t own = inputs.size() + forward_captures.size();
  const size_t extra = backward_captures.size();
  Types residuals;
  const GraphPtr ahead = closed(types_of(all), [&](std::span<const Tensor> args) {
    const Tensors results = joined(replay(*forward, args.first(own)), args.subspan(own), {});
    residuals = types_of(std::span(results).subspan(outputs));
    return results;
  });
  Types types = residuals;
  for (size_t i = 0; i < outputs; ++i) {
    types.push_back(ahead->type(ahead->outputs()[i]));
  }
  const GraphPtr back = closed(types, [&](std::span<const Tensor> args) {
    const auto kept = args.first(residuals.size() - extra);
    const auto captured = args.subspan(kept.size(), extra);
    Tensors cotangents = replay(*backward, joined(kept, args.subspan(residuals.size()), captured));
    for (size_t i = inputs.size(); i < all.size(); ++i) {
      cotangents.push_back(zeros_like(all[i]));
    }
    return cotangents;
  });
  return custom_vjp_program(ahead, back, static_cast<int64_t>(outputs), all);
}

}  // namespace mstrain
