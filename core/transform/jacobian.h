// Dense derivatives of functions from a Tensor to a Tensor. Further arguments are constants.
#pragma once

#include "core/transform/grad.h"

namespace mstrain {

using TensorFunction = std::function<Tensor(const Tensor&)>;
Tensor jacobian_of(const TensorFunction& f, const Tensor& x, const Caller& caller);
Tensor jacobian_forward_of(const TensorFunction& f, const Tensor& x, const Caller& caller);

// jacobian(f)(x, rest…)[i…, j…] = ∂f(x, rest…)[i…] / ∂x[j…]: one batched backward pass with a sample for each element of
// the result. f is recorded, so that it cannot read values.
template <class F>
auto jacobian(F f, const SourceLocation& where = SourceLocation::current()) {
  return [f = std::move(f), where](const Tensor& x, const auto&... rest) {
    return jacobian_of([&](const Tensor& inner) -> Tensor { return f(inner, rest...); }, x,
                       {"jacobian", where});
  };
}

template <class F>
auto jacobian_forward_for(const Caller& caller, F f) {
  return [f = std::move(f), caller](const Tensor& x, const auto&... rest) {
    return jacobian_forward_of([&](const Tensor& inner) -> Tensor { return f(inner, rest...); }, x,
                               caller);
  };
}

// The same by one batched forward pass with a sample for each element of x: better where x is the smaller one.
template <class F>
auto jacobian_forward(F f, const SourceLocation& where = SourceLocation::current()) {
  return jacobian_forward_for({"jacobian_forward", where}, std::move(f));
}

// hessian(f)(x, rest…)[i…, j…] = ∂²f / ∂x[i…] ∂x[j…] of a scalar f: forward over reverse.
template <class F>
auto hessian(F f, const SourceLocation& where = SourceLocation::current()) {
  return jacobian_forward_for({"hessian", where}, grad(std::move(f), where));
}

}  // namespace mstrain
