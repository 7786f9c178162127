// Random numbers as values: a draw is a pure function of a key, a site and the index of the
// element.
//
// A key is a u32[2] tensor. The site is a name: the path of the current NameScope and the argument
// `site` ("h.3.attn.dropout"), so that equal layers of a model draw different numbers from one key,
// and recomputation, batching and the order of tracing change nothing. Two draws of one kind, key
// and site are equal. core/ops/random_draw.h defines the numbers.
#pragma once

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> random_ops();

Tensor rng_key(uint64_t seed);
// An independent key for each `data`, of which the lower 32 bits count: an integer, or an integer
// tensor [] such as the step.
Tensor fold_in(const Arg& key, const Arg& data);

// The name under which a draw is known to its operation: a hash of the scope's path and `site`.
int64_t random_site(std::string_view site);

struct RandomOptions {
  std::string_view site;
  Dtype dtype = Dtype::kF32;
};

Tensor random_bits(const Arg& key, const Shape& shape, std::string_view site = {});     // u32
Tensor uniform(const Arg& key, const Shape& shape, const RandomOptions& options = {});  // [0, 1)
Tensor normal(const Arg& key, const Shape& shape,
              const RandomOptions& options = {});  // mean 0, deviation 1
// bool of `shape`: true with probability p, a number or a tensor that broadcasts to `shape`.
Tensor bernoulli(const Arg& key, const Arg& p, const Shape& shape, std::string_view site = {});
// i32 [...] drawn with the probabilities softmax(logits[..., n]).
Tensor categorical(const Arg& key, const Arg& logits, std::string_view site = {});
// i32 [n]: 0 … n-1 in random order.
Tensor permutation(const Arg& key, int64_t n, std::string_view site = {});

// x where kept, with probability 1 - rate, and divided by that; else 0. rate in [0, 1]; 0 is the
// identity.
Tensor dropout(const Arg& x, double rate, const Arg& key, std::string_view site = "dropout");

}  // namespace mstrain
