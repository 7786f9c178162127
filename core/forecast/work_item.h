// A part of the work of a micro-batch, as a kernel of a plan is or what ranks exchange: where it stands, how it divides, how much it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/compile/plan.h"

namespace mstrain {

enum class Region : uint8_t { kFirst, kBlock, kLast };
inline constexpr size_t kRegions = 3;

enum class WorkKind : uint8_t {
  kProduct,
  kAttention,  // whose work grows with the square of what it reads
  kMemory,     // bounded by the bytes that pass
  kReduce,     // sums over `tensor`, of `bytes`
  kGather      // along `tensor`, with sequence parallelism alone: of `bytes`
};

// Which size of a product `tensor` divides.
enum class Divides : uint8_t { kNothing, kRows, kColumns, kSummed, kBatch };

struct WorkItem {
  WorkKind kind = WorkKind::kMemory;
  Region region = Region::kBlock;
  bool backward = false;
  bool weights = false;       // gradients of weights: no other rank waits for them
  bool divided = false;       // along tensor
  Dtype dtype = Dtype::kF32;  // of what it reads; kU8: codes of floats of 8 bits
  double flops = 0, bytes = 0;
  double scores = 0;  // of attention, that are not masked
  double count = 1;
  // Of a product: `batch` times [rows, summed] x [summed, columns]
  double batch = 1, rows = 1, columns = 1, summed = 1;
  Divides divides = Divides::kNothing;
};

// The sizes of the product that `step` computes.
void set_sizes(WorkItem& item, const PlanStep& step);

// Those of attention that are not masked, forward or backward.
double scores_of(const PlanStep& step);

// Items that differ in their count alone become one.
std::vector<WorkItem> merged(std::span<const WorkItem> items);

}  // namespace mstrain
