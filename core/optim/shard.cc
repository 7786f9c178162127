#include "core/optim/shard.h"

#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/block_code.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// The elements of the whole, then padding: one part after the other.
Tensor padded(const Tensor& x, const Shard& shard) {
  const int64_t n = shard.shape.elements();
  const Tensor flat = reshape(x, {n});
  const int64_t all = shard.elements() * shard.axis.size;
  return all == n ? flat : pad(flat, {0}, {all - n});
}

}  // namespace

const Shard* find_shard(const Shards& shards, std::string_view name) {
  const auto found = shards.find(name);
  return found == shards.end() ? nullptr : &found->second;
}

Tensor part_of(const Tensor& whole, const Shard& shard) {
  const Tensor parts = reshape(padded(whole, shard), {shard.axis.size, shard.elements()});
  return gather(parts, axis_index(shard.axis), 0);
}

Tensor summed_part(const Tensor& x, const Shard& shard, Reduction reduction,
                   const Tensor& initial) {
  if (shard.replicas == 1) {
    return summed_parts(padded(x, shard), shard.axis, reduction, initial);
  }
  // Rank i of replica r adds up share r of part i; ranks are numbered by replica first.
  const Tensor shares =
      reshape(padded(x, shard), {shard.axis.size, shard.replicas, shard.summed_elements()});
  const MeshAxis all{std::string(kDataAxis), shard.axis.size * shard.replicas};
  return summed_parts(reshape(transpose(shares, {1, 0, 2}), {shares.elements()}), all, reduction,
                      initial);
}

Tensor part_of_sums(const Tensor& sums, const Shard& shard) {
  return shard.replicas == 1 ? sums
                             : all_gather(sums, {std::string(kReplicaAxis), shard.replicas}, 0);
}

Tensor summed_parts(const Tensor& x, const MeshAxis& axis, Reduction reduction,
                    const Tensor& initial) {
  if (!is_short(initial.dtype()) || reduction != Reduction::kSum) {
    return reduce_scatter(x, axis, 0, reduction, initial);
  }
  const Tensor parts = reshape(all_to_all(x, axis, 0, 0), {axis.size, initial.elements()});
  Tensor sum = initial;
  for (int64_t rank = 0; rank < axis.size; ++rank) {
    sum = sum + select(parts, 0, rank);
  }
  return sum;
}

Tensor whole_of(const Tensor& part, const Shard& shard) {
  const Tensor all = all_gather(part, shard.axis, 0);
  return reshape(slice(all, 0, 0, shard.shape.elements()), shard.shape);
}

Tensors squares_of_parts(std::span<const Tensor> tensors, std::span<const Shard* const> shards) {
  Tensors squares(tensors.size());
  // The blocks of all parts in one gathering: [ranks, blocks of one tensor | of the next | …].
  Tensors blocks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (shards[i] == nullptr) {
      squares[i] = squares_by_blocks(tensors[i]);
    } else {
      blocks.push_back(cast(block_squares(tensors[i]), Dtype::kF32));
    }
  }
  if (blocks.empty()) {
    return squares;
  }
  const Tensor own = expand_dims(blocks.size() == 1 ? blocks[0] : concat(blocks, 0), 0);
  Tensor all;
  int64_t first = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (shards[i] != nullptr) {
      if (!all.defined()) {
        all = all_gather(own, shards[i]->axis, 0);
      }
      const Tensor its = slice(all, 1, first, first + shards[i]->blocks());
      first += shards[i]->blocks();
      squares[i] = sum(
          slice(reshape(its, {its.elements()}), 0, 0, norm_blocks(shards[i]->shape.elements())));
    }
  }
  return squares;
}

Tensor key_of_part(const Tensor& key, const Shard& shard) {
  const int64_t codes = shard.elements() / kCodeBlock;
  const Tensor first = cast(axis_index(shard.axis) * static_cast<double>(codes), Dtype::kU32);
  return concat(std::array{key, expand_dims(first, 0)}, 0);
}

Tensor without_padding(const Tensor& part, const Shard& shard) {
  const int64_t n = shard.shape.elements();
  if (shard.elements() * shard.axis.size == n) {
    return part;
  }
  // Blocks and places in them are counted apart: together they may be more than i32 holds.
  const Shape grid{shard.blocks(), kNormBlock};
  const Tensor block = axis_index(shard.axis) * static_cast<double>(shard.blocks()) + iota(grid, 0);
  const auto whole_blocks = static_cast<double>(n / kNormBlock);
  const Tensor inside = logical_or(
      block < whole_blocks,
      logical_and(equal(block, whole_blocks), iota(grid, 1) < static_cast<double>(n % kNormBlock)));
  return reshape(where(inside, reshape(part, grid), 0), part.shape());
}

}  // namespace mstrain
