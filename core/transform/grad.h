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
  explicit Differentiation(const Caller& caller);
  // Copies under names of their own, so that they are the roots of the derivative.
  Tensors mark(std::span<const Tensor> inputs);

  // Cotangents of the marked inputs, zeros where nothing depends on them.
  Tensors pull(std::span<const Tensor> outputs, std::span<const Tensor> cotangents) const;
  // Tangents of the outputs.
  Tensors push(std::span<const Tensor> tangents, std::span<const Tensor> outputs) const;

 private:
  Caller caller_;
  std::optional<Trace> own_;
  Tensors marked_;
};

// Throws where `leaves`, all that argument number `place` holds, are integers and the like.
void check_differentiable(std::span<const Tensor> leaves, size_t place, const Caller& caller);
// The gradient starts at a floating scalar; throws naming what was found instead.
Tensor unit_cotangent(const Tensor& value, const Caller& caller);

// Where `argument` stands in `wrt`; their number where it does not.
template <size_t... wrt>
constexpr size_t place_among(size_t argument) {
  size_t place = 0;
  static_cast<void>(((wrt != argument && ++place > 0) && ...));
  return place;
}

template <size_t... wrt, class F>
auto value_and_grad_for(const Caller& caller, F f) {
  if constexpr (sizeof...(wrt) == 0) {
    return value_and_grad_for<0>(caller, std::move(f));
  } else {
    return [caller, f = std::move(f)](const auto&... arguments) {
      static_assert(((wrt < sizeof...(arguments)) && ...),
                    "value_and_grad: the call has fewer arguments than are to be differentiated");
      const auto given = std::tie(arguments...);
      const auto x = std::make_tuple(std::get<wrt>(given)...);
      (check_differentiable(leaves_of_argument(std::get<wrt>(given), wrt, caller), wrt, caller),
       ...);
      Differentiation differentiation(caller);
      const auto inner = with_leaves(x, differentiation.mark(flatten_tree(x)));
      const auto argument = [&]<size_t i>(std::integral_constant<size_t, i>) -> const auto& {
        if constexpr (place_among<wrt...>(i) < sizeof...(wrt)) {
          return std::get<place_among<wrt...>(i)>(inner);
        } else {
          return std::get<i>(given);
        }
      };
      auto result = [&]<size_t... i>(std::index_sequence<i...>) {
        return f(argument(std::integral_constant<size_t, i>())...);
      }
      (std::index_sequence_for<decltype(arguments)...>());
      Tensor value;
      if constexpr (std::is_same_v<decltype(result), Tensor>) {
        value = result;
      } else {
        value = result.first;
      }
      const Tensor seed = unit_cotangent(value, caller);
      auto gradients =
          with_leaves(x, differentiation.pull(std::span(&value, 1), std::span(&seed, 1)));
      if constexpr (sizeof...(wrt) == 1) {
        return std::pair(std::move(result), std::get<0>(std::move(gradients)));
      } else {
        return std::pair(std::move(result), std::move(gradients));
      }
    };
  }
}

// value_and_grad(f)(x, rest…) -> (f(x, rest…), gradient with respect to x, a tree like x). f returns a scalar, or a pair
// (scalar, aux) whose aux is passed on. value_and_grad<1>(f): with respect to the second argument instead;
// value_and_grad<0, 2>(f): a tuple of the gradients with respect to the first and the third.
template <size_t... wrt, class F>
auto value_and_grad(F f, const SourceLocation& where = SourceLocation::current()) {
  return value_and_grad_for<wrt...>({"value_and_grad", where}, std::move(f));
}

// grad(f)(x, rest…): the gradient of the scalar f with respect to x, a tree like x; grad<1>(f), grad<0, 2>(f) with
// respect to other arguments, as above. What is static in x stays as it is.
template <size_t... wrt, class F>
auto grad(F f, const SourceLocation& where = SourceLocation::current()) {
  return [f = value_and_grad_for<wrt...>({"grad", where}, std::move(f))](const auto&... arguments) {
    return f(arguments...).second;
  };
}

// vjp(f, x, cotangent) -> (f(x), cotangent of x).
template <class F, class X, class Y>
auto vjp(const F& f, const X& x, const Y& cotangent,
         const SourceLocation& where = SourceLocation::current()) {
  const Caller caller{"vjp", where};
  Differentiation differentiation(caller);
  const X inner = with_leaves(x, differentiation.mark(leaves_of_argument(x, 0, caller)));
  auto result = f(inner);
  X pulled = with_leaves(x, differentiation.pull(flatten_tree(result), flatten_tree(cotangent)));
  return std::pair(std::move(result), std::move(pulled));
}

// jvp(f, x, tangent) -> (f(x), tangent of the result).
template <class F, class X>
auto jvp(const F& f, const X& x, const X& tangent,
         const SourceLocation& where = SourceLocation::current()) {
  const Caller caller{"jvp", where};
  Differentiation differentiation(caller);
  const X inner = with_leaves(x, differentiation.mark(leaves_of_argument(x, 0, caller)));
  auto result = f(inner);
  auto pushed =
      with_leaves(result, differentiation.push(flatten_tree(tangent), flatten_tree(result)));
  return std::pair(std::move(result), std::move(pushed));
}

}  // namespace mstrain
