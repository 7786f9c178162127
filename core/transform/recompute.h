// Recomputation: time for memory.
#pragma once

#include "core/ops/control.h"
#include "core/transform/record.h"

namespace mstrain {

// recompute(f)(x, y, …) is f(x, y, …), whose backward pass computes f again from x, y, … instead of keeping what it
// computed on the way. Values and derivatives, also with respect to tensors that f uses from outside, are those of f
// bit for bit. f is recorded, so that it cannot read values.
template <class F>
auto recompute(F f) {
  return [f = std::move(f)](const auto&... given) {
    const auto arguments = std::make_tuple(given...);
    const Tensors leaves = flatten_tree(arguments);
    const auto recorded = record(f, arguments, types_of(leaves));
    return recorded.rebuild(recompute_program(recorded.program, recorded.inputs(leaves)));
  };
}

}  // namespace mstrain
