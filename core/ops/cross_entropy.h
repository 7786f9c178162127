// Cross-entropy of rows of logits[..., n] and class numbers targets[...] (i32 or i64).
//
// loss = logsumexp - (1 - s) logits[target] - s mean(logits), with s the label smoothing, in f32
// (f64 for f64). It is 0, without derivative, where the target is `ignore_index`; any other target
// outside of [0, n) is an Error when it runs.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> cross_entropy_ops();

// (logits[..., n], targets[...]) -> (loss[...], logsumexp[...]), and its gradient (g[...], logits, targets, logsumexp[...]) -> d_logits.
extern const OpDef& kCrossEntropy;
extern const OpDef& kCrossEntropyGrad;

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

// The mean over the rows that are not ignored; 0 where there are none.
Tensor cross_entropy(const Arg& logits, const Arg& targets,
                     const CrossEntropyOptions& options = {});
// The loss of every row: [...].
Tensor cross_entropy_rows(const Arg& logits, const Arg& targets,
                          const CrossEntropyOptions& options = {});

// The loss of every row, [...], where the right answer is a mixture: -sum(targets log_softmax(logits)) of the classes'
// shares targets[..., n], of which label smoothing spreads a part over all classes. Rows of zeros cost nothing.
Tensor soft_cross_entropy_rows(const Arg& logits, const Arg& targets, double label_smoothing = 0);

}  // namespace mstrain
