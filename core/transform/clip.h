// Clipping of gradients, which are trees of floating-point tensors (Params, structs with fields()).
//
// Norms are Euclidean, accumulated by blocks (core/ops/block_squares.h): in f64 where a tensor is f64, else f32. A norm above the limit
// scales by limit / norm. A norm that is not finite scales by 1: clipping cannot repair such a gradient, and must neither
// turn its infinities into NaN nor spread them to the finite elements; whoever asks global_norm sees it.
#pragma once

#include "core/tensor/tree.h"

namespace mstrain {

// One number [] over all tensors, summed in their order. Its derivative at 0 is 0.
Tensor global_norm_of(std::span<const Tensor> tensors);
// The same, from the sum of squares [] of each.
Tensor norm_of_squares(std::span<const Tensor> squares);
// What a gradient of this norm [] is multiplied by.
Tensor clip_factor(const Tensor& norm, double limit);
Tensors clipped_by_value(Tensors tensors, double low, double high);
Tensors clipped_by_norm(Tensors tensors, double limit);
Tensors clipped_by_global_norm(Tensors tensors, double limit, const Tensor& norm);

template <class T>
Tensor global_norm(const T& tree) {
  return global_norm_of(flatten_tree(tree));
}

// Every element into [low, high]; NaN stays NaN.
template <class T>
T clip_by_value(const T& tree, double low, double high) {
  return with_leaves(tree, clipped_by_value(flatten_tree(tree), low, high));
}

// Every tensor to a norm of at most `limit`.
template <class T>
T clip_by_norm(const T& tree, double limit) {
  return with_leaves(tree, clipped_by_norm(flatten_tree(tree), limit));
}

// All tensors by one factor to a global norm of at most `limit`. `norm` is global_norm(tree), where it is known.
template <class T>
T clip_by_global_norm(const T& tree, double limit, const Tensor& norm) {
  return with_leaves(tree, clipped_by_global_norm(flatten_tree(tree), limit, norm));
}
template <class T>
T clip_by_global_norm(const T& tree, double limit) {
  return clip_by_global_norm(tree, limit, global_norm(tree));
}

}  // namespace mstrain
