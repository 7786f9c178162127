// Mixed precision as a transform: a function that was written for f32 runs on parameters of 16 bits.
//
//   auto loss16 = in_precision(Dtype::kBF16, loss);     // loss16(params in bf16, batch in f32)
//
// f is recorded as if its 16-bit arguments were f32, and each of its operations is then applied again:
//   products    dot_general, attention, convolutions: their f32 operands are rounded to the dtype
//   sums        sums, softmax, exp, log, powers: their 16-bit operands are widened, and the result is f32
//   others      run in 16 bits where all operands have them, else in f32; constants follow the rest, and where one is not
//               exact in 16 bits, the result is rounded instead of it
//   loops       scan, while and custom_vjp run in the types that they were written in; recompute's body is transformed
// Whatever the dtype of its operands, an operation computes in f32 inside (layer norm, cross-entropy, attention and products
// too) and rounds its result once. Results have the types that f gives. f cannot read values, in eager mode neither.
// Derivatives of the transformed function follow as of any other; gradients have the dtypes of the arguments.
#pragma once

#include "core/transform/record.h"

namespace mstrain {

// Types as f was written for: 16-bit floats are f32.
Types written_types(std::span<const Tensor> leaves);
// `program` on `inputs`, of which f32 ones may be given in 16 bits.
Tensors run_in_precision(const Graph& program, std::span<const Tensor> inputs, Dtype dtype);

// f32 leaves f as it is.
template <class F>
auto in_precision(Dtype dtype, F f) {
  return [dtype, f = std::move(f)](const auto&... given) {
    const auto arguments = std::make_tuple(given...);
    using Result = std::decay_t<decltype(std::apply(f, arguments))>;
    if (dtype == Dtype::kF32) {
      return Result(std::apply(f, arguments));
    }
    const Tensors leaves = flatten_tree(arguments);
    const auto recorded = record(f, arguments, written_types(leaves));
    return Result(
        recorded.rebuild(run_in_precision(*recorded.program, recorded.inputs(leaves), dtype)));
  };
}

}  // namespace mstrain
