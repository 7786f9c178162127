// Products in 8-bit floating point as a transform: of a program in bf16 the products with some of its weights are made of codes.
//
//   auto loss8 = in_float8(loss16, {.weights = {0, 3}, .expected = expected});     // loss8(params in bf16, batch)
//
// Forward, activations and weights are rounded to E4M3; backward, gradients to E5M2, and multiplied by the same codes of activations
// and weights. What is multiplied keeps its derivative, as if nothing had been rounded. Each tensor is counted in a unit that the
// magnitude which is expected of it decides (core/ops/float8.h).
//
// The derivative by `expected` is none, but what is to be remembered: the largest magnitudes that there were, one for each, 0 of
// products that are not made. So they pass through recomputation, and come out of a backward pass as gradients do.
#pragma once

#include <vector>

#include "core/transform/record.h"

namespace mstrain {

struct Float8Products {
  // Which leaves of the arguments are the weights. Of each the first product is meant: where others read it as well, they stay.
  std::vector<size_t> weights;
  // Three f32 [] for each weight: the magnitudes that are expected of what it is multiplied by, of it, and of the product's
  // gradient. 0: what they are.
  Tensors expected;
  int64_t margin = 0;  // each has 2^margin times the room
};

// `program` on `inputs`.
Tensors run_in_float8(const Graph& program, std::span<const Tensor> inputs,
                      const Float8Products& products);

// f is recorded: it cannot read values.
template <class F>
auto in_float8(F f, Float8Products products) {
  return [f = std::move(f), products = std::move(products)](const auto&... given) {
    const auto arguments = std::make_tuple(given...);
    const Tensors leaves = flatten_tree(arguments);
    const auto recorded = record(f, arguments, types_of(leaves));
    return recorded.rebuild(run_in_float8(*recorded.program, recorded.inputs(leaves), products));
  };
}

}  // namespace mstrain
