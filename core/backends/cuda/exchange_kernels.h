// What the operations among ranks do on cards.
#pragma once

#include "core/backends/cuda/text.h"
#include "core/comm/communicator.h"
#include "core/ir/backend.h"

namespace mstrain::cuda {

// The reduction of `pieces` pieces in their order, as reduce_in_order() forms it (core/comm/sums.h): inputs are the pieces, of `count`
// elements each, one after another, and, where `initial`, what the sum begins with, in its type; the output has that type, and may
// lie over it. Of `request` the operation counts alone.
struct OrderedSum {
  Reduction reduction = Reduction::kSum;
  Dtype dtype = Dtype::kF32;
  int64_t pieces = 1, count = 0;
  std::optional<Dtype> initial = {};
};
KernelText print_ordered_sum(const OrderedSum& sum, const KernelRequest& request);

// Of a group whose cards exchange among themselves; where a plan is made without ranks, of one that would here, or on the card that is
// described.
bool exchanges_by_cards(const KernelRequest& request);
Kernel prepare_exchange(const KernelRequest& request);

}  // namespace mstrain::cuda
