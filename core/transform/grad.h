// Derivatives of functions of trees (see tensor/tree.h). Any nesting and any order; in eager mode the function runs on
// values, so that it may branch on them.
#pragma once

#include "core/ops/build.h"
#include "core/tensor/tree.h"

namespace mstrain {

// Runs a function on marked copies of some inputs inside a recording trace, for derivatives of what it records.
class Differentiation {
 public:
  // Opens a trace unless one is open.
  Differentiation();
  // Copies under names of their own, so that they are the roots of the derivative.
  Tensors mark(std::span<const Tensor> inputs);

  // Cotangents of the marked inputs, zeros where nothing depends on them.
  Tensors pull(std::span<const Tensor> outputs, std::span<const Tensor> cotangents) const;
  // Tangents of the outputs.
  Tensors push(std::span<const Tensor> tangents, std::span<const Tensor> outputs) const;

 private:
  std::optional<Trace> own_;
  Tensors marked_;
};

// The gradient starts at a floating scalar; throws naming what was found instead.
Tensor unit_cotangent(const Tensor& value, std::string_view function);

// value_and_grad(f)(x, rest…) -> (f(x, rest…), gradient with respect to x, a tree like x). f returns a scalar, or a pair
// (scalar, aux) whose aux is passed on.
template <class F>
auto value_and_grad(F f) {
  return [f = std::move(f)](const auto& x, const auto&... rest) {
    using X = std::decay_t<decltype(x)>;
    Differentiation differentiation;
    const X inner = with_leaves(x, differentiation.mark(flatten_tree(x)));
    auto result = f(inner, rest...);
    Tensor value;
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      value = result;
    } else {
      value = result.first;
    }
    const Tensor seed = unit_cotangent(value, "value_and_grad");
    X gradient = with_leaves(x, differentiation.pull(std::span(&value, 1), std::span(&seed, 1)));
    return std::pair(std::move(result), std::move(gradient));
  };
}

// grad(f)(x, rest…): the gradient of the scalar f with respect to x, a tree like x.
template <class F>
auto grad(F f) {
  return [f = value_and_grad(std::move(f))](const auto& x, const auto&... rest) {
    return f(x, rest...).second;
  };
}

// vjp(f, x, cotangent) -> (f(x), cotangent of x).
template <class F, class X, class Y>
auto vjp(const F& f, const X& x, const Y& cotangent) {
  Differentiation differentiation;
  const X inner = with_leaves(x, differentiation.mark(flatten_tree(x)));
  auto result = f(inner);
  X pulled = with_leaves(x, differentiation.pull(flatten_tree(result), flatten_tree(cotangent)));
  return std::pair(std::move(result), std::move(pulled));
}

// jvp(f, x, tangent) -> (f(x), tangent of the result).
template <class F, class X>
auto jvp(const F& f, const X& x, const X& tangent) {
  Differentiation differentiation;
  const X inner = with_leaves(x, differentiation.mark(flatten_tree(x)));
  auto result = f(inner);
  auto pushed =
      with_leaves(result, differentiation.push(flatten_tree(tangent), flatten_tree(result)));
  return std::pair(std::move(result), std::move(pushed));
}

}  // namespace mstrain
