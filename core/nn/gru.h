// Gated recurrent units (Cho et al. 2014) as PyTorch's GRUCell has them: with a = W x + b of the input and c = U h + d of the state,
// each of three parts,
//   r = sigmoid(a_r + c_r), z = sigmoid(a_z + c_z), n = tanh(a_n + r c_n), next = (1 - z) n + z h.
// Parameters: the linear layers "input" and "state", whose outputs are r, z and n side by side.
#pragma once

#include "core/nn/layers.h"

namespace mstrain {

// What the inputs x[..., n] add: [..., 3 units]. All steps of a sequence may be one product.
Tensor gru_inputs(const Params& p, const Tensor& x, int64_t units);
// The next state of h[b, units], with a[b, 3 units] of gru_inputs().
Tensor gru_step(const Params& p, const Tensor& a_b3u, const Tensor& h_bu);

}  // namespace mstrain
