// What a rank would compute and keep, read off a compiled plan: the work of a micro-batch as a list, by place in the model and by
// how it divides along `tensor`, and the bytes that live at each of its steps. A model is `first` (before its blocks), so many
// equal blocks, and `last` (behind them).
//
// How things divide follows from the plan alone: a product of something that all ranks have with a weight of a block leaves each
// rank some columns; a product of such columns with a weight leaves sums over ranks, which a collective adds up; attention,
// activations and gradients divide as what they are made of. A table of all ids, and a head of as many, divide by ids. What is
// between the products is computed by all ranks, or, with sequence parallelism, by each for some of the tokens.
#pragma once

#include "core/forecast/work_item.h"
#include "core/train/task.h"

namespace mstrain {

// Bytes that `tensor` divides, and those that are whole on every rank, or divide with sequence parallelism.
struct DividedBytes {
  double divided = 0, whole = 0;
  double local(double tensor, bool by_tokens) const {
    return divided / tensor + whole / (by_tokens ? tensor : 1);
  }
};

struct RegionProfile {
  DividedBytes parameters;  // elements; whole: on every rank, also with sequence parallelism
  DividedBytes saved;       // kept from forward to backward, of a micro-batch
  std::vector<DividedBytes> beside;  // at each of its steps, what else lives
};

// Of one micro-batch. `block` regions are of one block.
struct Profile {
  std::vector<WorkItem> items;
  std::array<RegionProfile, kRegions> regions;
  DividedBytes tied;          // elements of parameters that both first and last read
  double boundary_bytes = 0;  // what one block gives the next
  double batch_bytes = 0;
  double parameters = 0;    // elements, all of them
  double update_bytes = 0;  // that an update moves, for all parameters
  double update_kernels = 0;
  double optimizer_bytes = 0;  // kept between steps, for all parameters
  double parameter_bytes = 0;  // of one
  double gradient_bytes = 0;   // of one, summed up over micro-batches
};

// `plan`: of a step (core/train/step.h) with this state that loops over micro-batches, of a model of `blocks` blocks. `in_blocks`: whether
// parameter i is of a block; `ids`: of how many tokens or labels a table is.
Profile read_profile(const Plan& plan, const TrainTask& task, std::span<const TensorType> state,
                     const std::vector<bool>& in_blocks, std::optional<int64_t> ids,
                     int64_t blocks);

// Which of `more`, the parameters of a model of several blocks, are of a block; `few`: those of the same model with fewer.
std::vector<bool> parameters_of_blocks(std::span<const ParamSpec> few,
                                       std::span<const ParamSpec> more);

}  // namespace mstrain
