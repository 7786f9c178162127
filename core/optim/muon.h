// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"): momentum whose matrices are made orthogonal, a
// second-order step without second moments: all directions of a layer move alike, whatever their gradients' sizes.
#pragma once

#include "core/optim/update_rules.h"

namespace mstrain {

// The form of a matrix of the hidden layers, which Muon makes orthogonal: what products alone read, in a folder with a number, as layers
// have ("h.0.attn.c_attn.weight"), and kernels of convolutions, [out, in, height, width]. None of all else, such as embeddings, heads, norms and biases.
std::optional<MatrixForm> hidden_matrix(const ParamSpec& spec);

// x[r, c] with all singular values near 1 (.7 to 1.2), by five steps of Newton and Schulz. 0 stays 0.
Tensor orthogonalised(const Tensor& x);

// v' = μ v + g; d = v', or g + μ v' with Nesterov's look-ahead; p' = p - lr (0.2 √max(r, c) orthogonalised(d) + weight_decay p), with p as
// a matrix of r by c. The factor gives a step the size of AdamW's, so that one rate serves both (Liu et al. 2025, "Muon is scalable for LLM
// training").
ParameterStep muon_matrix(const OptimizerConfig& config, const AdamwScalars& scalars,
                          const ParameterStep& step);

}  // namespace mstrain
