// Machines that a run is planned for, as a file describes them: configs/clusters/a100_80gb_x8.yaml.
#pragma once

#include "core/train/run_device.h"

namespace mstrain {

// In one direction, for each device.
struct LinkDescription {
  double gbps = 0;
  double latency_us = 0;

  template <class V>
  void fields(V& v) {
    v("gbps", gbps, "of a device in one direction, in 10^9 bytes a second",
      rule::positive().required());
    v("latency_us", latency_us, "until the first byte is there, in microseconds",
      rule::at_least(0).required());
  }
};

// Which part of what its makers say a device gives to long runs of large pieces; docs/planner.md says where the defaults are from.
struct AchievedShares {
  double products = 0.74;
  double attention = 0.42;
  double memory = 0.73;
  double links = 0.7;

  template <class V>
  void fields(V& v) {
    const ConfigRule share = rule::above(0).at_most(1);
    v("products", products, "of peak_tflops, in large products", share);
    v("attention", attention, "of peak_tflops, in fused attention", share);
    v("memory", memory, "of memory_gbps", share);
    v("links", links, "of gbps between devices, in collectives", share);
  }
};

struct ClusterDevice : DeviceDescription {
  double launch_us = 0;
  std::optional<int64_t> units;
  std::optional<double> operand_gbps;
  std::optional<double> scores_gps;
  double reserved_gb = 0;
  AchievedShares achieved;

  template <class V>
  void fields(V& v) {
    DeviceDescription::fields(v);
    v("launch_us", launch_us, "between two kernels, in microseconds", rule::at_least(0).required());
    v("units", units,
      "processors that work on tiles of a product at once; null: products of any size fill it",
      rule::at_least(1).at_most(100000));
    v("operand_gbps", operand_gbps,
      "at which operands and results of a product are laid out before and behind its sums, in 10^9 "
      "bytes a second; null: while it sums",
      rule::positive());
    v("scores_gps", scores_gps,
      "scores that attention makes probabilities of, forward or backward, 10^9 a second, before "
      "and "
      "behind its sums; null: while it sums",
      rule::positive());
    v("reserved_gb", reserved_gb,
      "of its memory, what driver, libraries and communicators take before a run has any",
      rule::at_least(0));
    v("achieved", achieved, "shares of these rates that programs reach");
  }
};

struct Cluster {
  int64_t nodes = 1;
  int64_t gpus_per_node = 1;
  ClusterDevice device;
  std::optional<int64_t> processors;
  LinkDescription intra, inter;

  template <class V>
  void fields(V& v) {
    v("nodes", nodes, "machines", rule::at_least(1).at_most(1e6).required());
    v("gpus_per_node", gpus_per_node, "devices in each, a rank each",
      rule::at_least(1).at_most(1024).required());
    v("processors", processors,
      "of a machine, where fewer than its devices, which are processes that take turns on them; "
      "null: each has its own",
      rule::at_least(1).at_most(1e6));
    v("device", device, "what each of them is");
    v("intra", intra, "links between devices of a machine");
    v("inter", inter, "links between machines");
  }

  int64_t ranks() const { return nodes * gpus_per_node; }
  // Devices that take turns on a processor, at most.
  int64_t crowding() const {
    const int64_t each = processors.value_or(gpus_per_node);
    return (gpus_per_node + each - 1) / each;
  }
};

// `overrides` are of the form cluster.nodes=4. The text may leave out the word `cluster`. Throws ConfigError with `name`, line and
// key.
Cluster parse_cluster(std::string_view text, const std::string& name,
                      const std::vector<std::string>& overrides = {});
std::string to_text(const Cluster& cluster);
// Of a file. Throws IoError besides.
Cluster read_cluster(FileSystem& files, const std::string& path,
                     const std::vector<std::string>& overrides = {});

}  // namespace mstrain
