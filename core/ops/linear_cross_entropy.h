// A head with its loss: the cross-entropy (core/ops/cross_entropy.h) of logits = x W + b, of which a step needs neither the
// logits nor their gradient. The compiler computes it in chunks of rows, forward and backward together
// (core/compile/chunk_loss.cc), so that the logits of a large vocabulary never exist as a whole; its decomposition is the
// product and the loss.
#pragma once

#include "core/ir/layout.h"
#include "core/ops/cross_entropy.h"

namespace mstrain {

std::span<const OpDef> linear_cross_entropy_ops();

// (x[..., k], w, targets[...], b[n] or nothing) -> (loss[...], logsumexp[...], best[...]), and its gradient
// (g[...], x, w, targets, logsumexp[...], b or nothing) -> (dx, dw, db or nothing), which computes the logits again.
extern const OpDef& kLinearCrossEntropy;
extern const OpDef& kLinearCrossEntropyGrad;

struct LinearCrossEntropyOptions {
  Tensor bias = {};               // [n]
  bool transpose_weight = false;  // the weight is [n, k], not [k, n]
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

// By row. best (i32) is the likeliest class, the first of equals.
struct LinearCrossEntropyRows {
  Tensor loss, logsumexp, best;
};
LinearCrossEntropyRows linear_cross_entropy_rows(const Arg& x, const Arg& weight,
                                                 const Arg& targets,
                                                 const LinearCrossEntropyOptions& options = {});

// Over all rows that are not ignored; scalars []. The mean loss is loss / count.
struct CrossEntropySums {
  Tensor loss;
  Tensor count;    // i32
  Tensor correct;  // i32: rows whose likeliest class is the target
};
CrossEntropySums linear_cross_entropy(const Arg& x, const Arg& weight, const Arg& targets,
                                      const LinearCrossEntropyOptions& options = {});

// The decomposition in its parts, on rows x[r, k]. `attrs` are those of either operation; an empty bias is none.
namespace linear_head {
Tensor logits(const Attrs& attrs, const Tensor& x, const Tensor& weight, const Tensor& bias);
Tensors losses(const Attrs& attrs, const Tensor& logits, const Tensor& targets);  // and logsumexp
Tensor logits_gradient(const Attrs& attrs, const Tensor& g, const Tensor& logits,
                       const Tensor& targets, const Tensor& logsumexp);
Tensor x_gradient(const Attrs& attrs, const Tensor& dlogits, const Tensor& weight);
Tensor weight_gradient(const Attrs& attrs, const Tensor& dlogits, const Tensor& x);

// linear_cross_entropy_layout.cc
std::vector<Way> ways(const LayoutRequest& request);
std::vector<Way> ways_of_gradient(const LayoutRequest& request);
}  // namespace linear_head

}  // namespace mstrain
