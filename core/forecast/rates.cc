#include "core/forecast/rates.h"

#include <algorithm>
#include <cmath>

namespace mstrain {
namespace {

// The tiles in which libraries compute products: the larger, the fewer bytes for each operation, and the more of the peak.
struct Tile {
  double rows, columns, share;
};
constexpr Tile kTiles[] = {
    {256, 128, 1.0}, {128, 128, 0.96}, {128, 64, 0.85}, {64, 64, 0.7}, {32, 32, 0.35}};
// What begins and ends a tile costs as much as so many sums more.
constexpr double kTileSums = 160;

double peak_of(const ClusterDevice& device, Dtype dtype) {
  const PeakRates& peak = device.peak_tflops;
  const std::optional<double> rate = dtype == Dtype::kBF16  ? peak.bf16
                                     : dtype == Dtype::kF16 ? peak.fp16
                                     : dtype == Dtype::kF64 ? peak.fp64
                                     : dtype == Dtype::kU8  ? peak.fp8
                                                            : std::optional(peak.fp32);
  return rate.value_or(peak.fp32) * 1e12;
}

// Operations that tiles of the best size make, wasted ones included, as if all processors were busy to the end.
double padded_flops(const ClusterDevice& device, double batch, double rows, double columns,
                    double summed) {
  const double flops = 2 * batch * rows * columns * summed;
  if (!device.units) {
    return flops;
  }
  const auto units = static_cast<double>(*device.units);
  double least = HUGE_VAL;
  for (const Tile& tile : kTiles) {
    const double tiles = batch * std::ceil(rows / tile.rows) * std::ceil(columns / tile.columns);
    // A product with few tiles and long sums is cut along these, too.
    const double parts = std::clamp(std::floor(units / tiles), 1.0, std::max(1.0, summed / 1024));
    const double waves = std::ceil(tiles * parts / units);
    least = std::min(least, waves * units * 2 * tile.rows * tile.columns *
                                (summed / parts + kTileSums) / tile.share);
  }
  return std::max(flops, least);
}

double product_seconds(const ClusterDevice& device, const WorkItem& item, const WorkShare& share) {
  double batch = item.batch;
  double rows = item.rows;
  double columns = item.columns;
  double summed = item.summed;
  const auto divide = [&](double& size) { size = std::max(1.0, std::ceil(size / share.tensor)); };
  switch (item.divides) {
    case Divides::kNothing:
      // What all ranks would compute is shared by tokens: rows, or sums over them.
      if (share.by_tokens) {
        divide(item.weights ? summed : rows);
      }
      break;
    case Divides::kRows: divide(rows); break;
    case Divides::kColumns: divide(columns); break;
    case Divides::kSummed: divide(summed); break;
    case Divides::kBatch: divide(batch); break;
  }
  double& tokens = item.weights ? summed : rows;
  tokens = std::max(1.0, tokens / share.context);
  const double width = static_cast<double>(size_of(item.dtype));
  const double made = item.dtype == Dtype::kU8 ? static_cast<double>(size_of(Dtype::kBF16)) : width;
  const double bytes = batch * ((rows * summed + summed * columns) * width + rows * columns * made);
  const double sums = padded_flops(device, batch, rows, columns, summed) /
                      (peak_of(device, item.dtype) * device.achieved.products);
  return device.operand_gbps
             ? sums + bytes / (*device.operand_gbps * 1e9)
             : std::max(sums, bytes / (device.memory_gbps * 1e9 * device.achieved.memory));
}

// Shares of a ring's time, (n - 1) / n of the bytes, and what each hop waits.
double ring_seconds(const Cluster& cluster, const Group& group, double bytes) {
  const auto n = static_cast<double>(group.size());
  if (n <= 1) {
    return 0;
  }
  const double links = cluster.device.achieved.links * 1e9;
  double rate = cluster.intra.gbps * links;
  double wait = static_cast<double>(group.per_node - 1) * cluster.intra.latency_us;
  if (group.nodes > 1) {
    // Between two nodes every rank of the group has its own link.
    const double between = cluster.inter.gbps * static_cast<double>(group.per_node) * links;
    rate = group.per_node > 1 ? std::min(rate, between) : between;
    // Trees serve many nodes, where a ring would wait for each.
    wait += std::min(static_cast<double>(group.nodes - 1),
                     2 * std::log2(static_cast<double>(group.nodes))) *
            cluster.inter.latency_us;
  }
  return (n - 1) / n * bytes / rate + wait * 1e-6;
}

}  // namespace

double seconds_of(const ClusterDevice& device, const WorkItem& item, const WorkShare& share) {
  const double launch = device.launch_us * 1e-6;
  const double shared = (item.divided || share.by_tokens ? share.tensor : 1) * share.context;
  const double memory = item.bytes / shared / (device.memory_gbps * 1e9 * device.achieved.memory);
  switch (item.kind) {
    case WorkKind::kProduct: return product_seconds(device, item, share) + launch;
    case WorkKind::kAttention:
      return std::max(
                 item.flops / shared / (peak_of(device, item.dtype) * device.achieved.attention),
                 memory) +
             (device.scores_gps ? item.scores / shared / (*device.scores_gps * 1e9) : 0) + launch;
    case WorkKind::kMemory: return memory + launch;
    case WorkKind::kReduce:
    case WorkKind::kGather: return 0;
  }
  return 0;
}

Group group_of(const Cluster& cluster, int64_t size, int64_t stride) {
  const int64_t reach = std::max<int64_t>(1, cluster.gpus_per_node / stride);
  const int64_t per_node = std::min(size, reach);
  return {per_node, (size + per_node - 1) / per_node};
}

double all_gather_seconds(const Cluster& cluster, const Group& group, double bytes) {
  return ring_seconds(cluster, group, bytes);
}

double reduce_scatter_seconds(const Cluster& cluster, const Group& group, double bytes) {
  return ring_seconds(cluster, group, bytes);
}

double all_reduce_seconds(const Cluster& cluster, const Group& group, double bytes) {
  return 2 * ring_seconds(cluster, group, bytes);
}

double send_seconds(const Cluster& cluster, int64_t stride, double bytes) {
  const LinkDescription& link = stride < cluster.gpus_per_node ? cluster.intra : cluster.inter;
  return bytes / (link.gbps * 1e9 * cluster.device.achieved.links) + link.latency_us * 1e-6;
}

}  // namespace mstrain
