// Kernels of the collective operations for back ends whose kernels run on the host, and what those of others begin with.
#pragma once

#include "core/ir/backend.h"
#include "core/ops/collective.h"

namespace mstrain {

// What one application needs whenever it runs.
struct CollectiveCall {
  MeshAxis axis;
  std::shared_ptr<Ranks>
      ranks;  // null where the axis has one rank, and where a plan is made without ranks
  TensorType in, out;
  std::string what;

  explicit CollectiveCall(const KernelRequest& request);
  bool alone() const { return axis.size == 1; }
  // Throws Error where there are no ranks, or not as many.
  Communicator& group() const;
  std::vector<int64_t> equal_counts(int64_t each) const;
};

// Enters them into a table.
void register_collectives(Backend& backend);

}  // namespace mstrain
