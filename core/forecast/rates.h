// How long work takes on a cluster, in seconds: products by their sizes, everything else by the bytes that pass, collectives by
// latency and bandwidth.
#pragma once

#include "core/forecast/cluster.h"
#include "core/forecast/profile.h"

namespace mstrain {

// How a rank shares the work of an item.
struct WorkShare {
  double tensor = 1;
  bool by_tokens = false;  // sequence parallelism
  double context = 1;
};

// Of one rank, `count` left out. Collectives take no time here.
double seconds_of(const ClusterDevice& device, const WorkItem& item, const WorkShare& share);

// Ranks that work together: so many nodes, so many ranks in each.
struct Group {
  int64_t per_node = 1, nodes = 1;
  int64_t size() const { return per_node * nodes; }
};
// Of `size` ranks that stand `stride` apart, ranks being numbered node by node.
Group group_of(const Cluster& cluster, int64_t size, int64_t stride);

// `bytes`: of the whole tensor, that each rank has before a sum, or after a gather. By rings, each rank with a link of its own.
double all_gather_seconds(const Cluster& cluster, const Group& group, double bytes);
double reduce_scatter_seconds(const Cluster& cluster, const Group& group, double bytes);
double all_reduce_seconds(const Cluster& cluster, const Group& group, double bytes);
// To a rank that stands `stride` further.
double send_seconds(const Cluster& cluster, int64_t stride, double bytes);

}  // namespace mstrain
