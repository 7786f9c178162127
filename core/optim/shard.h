// A parameter of which each rank of an axis holds a part: a range of its elements, as memory lists them, in whole norm blocks
// (core/ops/block_squares.h). All ranks get equally many blocks; what lies behind the parameter's end is padding, which
// nobody sees: it is cut off where the whole is put together, and counts in no norm.
//
// Functions of all ranks, written with collectives: every rank calls them in the same order.
#pragma once

#include <map>
#include <span>
#include <string>

#include "core/comm/mesh.h"
#include "core/ops/block_squares.h"
#include "core/ops/collective.h"

namespace mstrain {

struct Shard {
  Shape shape;  // of the whole
  MeshAxis axis;
  int64_t replicas =
      1;  // groups of such ranks, which have the same; together with those of `axis` they are the ranks along data

  int64_t blocks() const {  // of a part: each of its replicas adds up equally many
    const int64_t all = axis.size * replicas;
    return (norm_blocks(shape.elements()) + all - 1) / all * replicas;
  }
  int64_t elements() const { return blocks() * kNormBlock; }  // of a part
  int64_t summed_elements() const { return elements() / replicas; }
};

// By parameter; those that are not here are whole on every rank.
using Shards = std::map<std::string, Shard, std::less<>>;
// Null where there is none.
const Shard* find_shard(const Shards& shards, std::string_view name);

// This rank's part [elements] of a tensor that all ranks have whole.
Tensor part_of(const Tensor& whole, const Shard& shard);
// What this rank adds up of ((initial + x_0) + x_1) + …, the values of all replicas' ranks in their order unless `reduction` leaves it open:
// [summed_elements], its share of the replicas' part. In the type of `initial`: sums of 16 bits are rounded after every addition, as those of
// one rank are.
Tensor summed_part(const Tensor& x, const Shard& shard, Reduction reduction, const Tensor& initial);
// The same of parts that lie one after the other in x[size × n], n elements for each rank.
Tensor summed_parts(const Tensor& x, const MeshAxis& axis, Reduction reduction,
                    const Tensor& initial);
// The part, of the shares that its replicas added up.
Tensor part_of_sums(const Tensor& sums, const Shard& shard);
// The whole, in its shape, on every rank.
Tensor whole_of(const Tensor& part, const Shard& shard);

// For each tensor, the sum of the squares of all elements, [], bit for bit that of squares_by_blocks() of the whole. `shards`: of each,
// null where it is whole.
Tensors squares_of_parts(std::span<const Tensor> tensors, std::span<const Shard* const> shards);

// `key`, u32 [2], for what is rounded stochastically of this rank's part.
Tensor key_of_part(const Tensor& key, const Shard& shard);
// `part`, with zeros for padding.
Tensor without_padding(const Tensor& part, const Shard& shard);

}  // namespace mstrain
