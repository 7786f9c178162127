// What models of clicks are made of.
#pragma once

#include "core/tensor/params.h"
#include "suites/recommender/models/config.h"

namespace mstrain::recommender {

// What a model sees of some samples.
struct Features {
  Tensor numeric_bn;   // null: there are no numbers
  Tensor vectors_bfd;  // of each field of ids, pooled; null: there are none
  Tensor weights_b;    // single weights of all fields, added up; null: the model has none
  // Where columns of numbers have vectors, which are the same for all samples, and are multiplied by these numbers; else null.
  Tensor vectors_of_numbers_bnd, numbers_bn;
};

// Of all fields, those of numbers first, multiplied: [b, n + f, d].
Tensor all_vectors(const Features& x);

// Numbers that have no vectors and all vectors side by side: [b, n + f d].
Tensor side_by_side(const Features& x);

// Layers "0", "1", … of x[b, n], each with what the configuration says: [b, last of hidden].
Tensor tower(const Params& p, Tensor x, const TowerConfig& config);
// Of what is side by side. Vectors of numbers are multiplied by the first layer's weight once for all samples, which sums up in
// another order.
Tensor tower(const Params& p, const Features& x, const TowerConfig& config);

// x[b, n] -> [b]: a layer of one unit.
Tensor unit(const Params& p, const Tensor& x);

// Of log-odds z and labels y, both [b]: -y log p - (1 - y) log(1 - p), p the sigmoid of z.
Tensor log_losses(const Tensor& logits_b, const Tensor& labels_b);

}  // namespace mstrain::recommender
