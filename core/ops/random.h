// Random numbers as values: a draw is a pure function of a key, a site and the index of the
// element.
//
// A key is a u32[2] tensor. The site is a name: the path of the current NameScope and the argument
// `site` ("h.3.attn.dropout"), so that equal layers of a model draw different numbers from one key,
// and recomputation, batching and the order of tracing change nothing. Two draws of one kind, key
// and site are equal. core/ops/random_draw.h defines the numbers.
//
// A draw may be a part of a larger one: element i of the part is then element offset + i of the
// whole, whoever draws the rest of it. So a micro-batch, a lane of vmap or a shard draws the numbers
// that the whole batch would.
#pragma once

#include <optional>

#include "core/ir/arg.h"

namespace mstrain {

std::span<const OpDef> random_ops();

Tensor rng_key(uint64_t seed);
// An independent key for each `data`, of which the lower 32 bits count: an integer, or an integer
// tensor [] such as the step.
Tensor fold_in(const Arg& key, const Arg& data);

// The name under which a draw is known to its operation: a hash of the scope's path and `site`.
int64_t random_site(std::string_view site);

// Where in a larger draw the elements of this one stand. A part that leaves it is an Error when it
// runs.
struct RandomPart {
  Tensor offset;  // i32 [rank]: the first element's index in the whole; may change from run to run
  Shape whole;    // of the same rank as the part
};

struct RandomOptions {
  std::string_view site = {};
  std::optional<RandomPart> part = {};  // none: the draw is the whole
  Dtype dtype = Dtype::kF32;            // of uniform() and normal()
};

Tensor random_bits(const Arg& key, const Shape& shape, const RandomOptions& options = {});  // u32
Tensor uniform(const Arg& key, const Shape& shape, const RandomOptions& options = {});  // [0, 1)
Tensor normal(const Arg& key, const Shape& shape,
              const RandomOptions& options = {});  // mean 0, deviation 1
// bool of `shape`: true with probability p, a number or a tensor that broadcasts to `shape`.
Tensor bernoulli(const Arg& key, const Arg& p, const Shape& shape,
                 const RandomOptions& options = {});
// i32 [...] drawn with the probabilities softmax(logits[..., n]). A part is one of logits.
Tensor categorical(const Arg& key, const Arg& logits, const RandomOptions& options = {});
// i32 [n]: 0 … n-1 in random order.
Tensor permutation(const Arg& key, int64_t n, std::string_view site = {});

// x where kept, with probability 1 - rate, and divided by that; else 0. rate in [0, 1]; 0 is the
// identity. Element i stays where number i of uniform(key, shape of x, options) in f32 is below
// 1 - rate.
Tensor dropout(const Arg& x, double rate, const Arg& key,
               const RandomOptions& options = {.site = "dropout"});

}  // namespace mstrain
