// Batch normalisation (Ioffe & Szegedy 2015), and models with state that is gathered instead of trained.
//
// Such state is a second tree of named tensors beside the parameters. A layer reads and replaces it in a copy that the
// model passes through and returns, so that the model remains a function:
//
//   std::pair<Tensor, Params> loss(const Params& p, Params state, const Batch& b) {
//     const Tensor x = batch_norm(p / "bn1", state, conv2d(p / "conv1", b.images, 16, {3, 3}));
//     …
//     return {cross_entropy(…), state};
//   }
//
// In models that the trainer trains they are parameters of their own (core/nn/follow_scope.h): batch_norm(p / "bn1", x).
#pragma once

#include "core/tensor/params.h"

namespace mstrain {

struct BatchNormOptions {
  double momentum = 0.1;  // weight of a new batch in the running statistics
  double eps = 1e-5;
  // Statistics of so many samples, one after the other, each with themselves, of which the running ones get the mean ("ghost batch
  // normalisation", Hoffer et al. 2017); 0: of all. Then what a batch is worth does not depend on how it is divided.
  int64_t samples = 0;
};

// x[n, c, …] normalised for each channel c over all other dims, times weight[c], plus bias[c]. Where the context is
// training: with the statistics of x, and `state` gets new running_mean[c] and running_var[c] (unbiased; without
// derivative). Otherwise: with the running ones. State of this layer is named p.path() inside `state`.
Tensor batch_norm(const Params& p, Params& state, const Tensor& x,
                  const BatchNormOptions& options = {});

// The same with running statistics among the parameters.
Tensor batch_norm(const Params& p, const Tensor& x, const BatchNormOptions& options = {});

struct StatefulSpecs {
  std::vector<ParamSpec> params;
  std::vector<ParamSpec> state;
};

// As declare_params(), for both trees.
StatefulSpecs declare_stateful(const std::function<void(const Params&, Params&)>& model);

}  // namespace mstrain
