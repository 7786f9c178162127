// Devices that a run names: those of this machine, and those that a file describes, for which runs are planned.
#pragma once

#include <string>

#include "core/base/files.h"
#include "core/ir/backend.h"
#include "core/train/sections.h"

namespace mstrain {

// In 10^12 operations a second.
struct PeakRates {
  std::optional<double> fp64;
  double fp32 = 0;
  std::optional<double> bf16, fp16, fp8;

  template <class V>
  void fields(V& v) {
    v("fp64", fp64, "of 64 bits; null: the device has no such numbers", rule::positive());
    v("fp32", fp32, "of 32 bits", rule::positive().required());
    v("bf16", bf16, "of bfloat16; null: the device has no such numbers", rule::positive());
    v("fp16", fp16, "of half precision; null: the device has no such numbers", rule::positive());
    v("fp8", fp8, "of floats of 8 bits; null: the device has no such numbers", rule::positive());
  }
};

// A file like configs/devices/h100_80gb.yaml.
struct DeviceDescription {
  std::string name;
  double memory_gb = 0;
  double memory_gbps = 0;
  PeakRates peak_tflops;
  std::optional<double> link_gbps;

  template <class V>
  void fields(V& v) {
    v("name", name, "what the device is called", rule::required());
    v("memory_gb", memory_gb, "its memory, in 10^9 bytes",
      rule::positive().at_most(1e9).required());
    v("memory_gbps", memory_gbps, "to and from that memory, in 10^9 bytes a second",
      rule::positive().required());
    v("peak_tflops", peak_tflops,
      "what its products make at most, by the type of their operands, in 10^12 a second");
    v("link_gbps", link_gbps, "from the host, in 10^9 bytes a second; null: not known",
      rule::positive());
  }
};

// Throws IoError, and ConfigError with file, line and key.
DeviceDescription read_device(FileSystem& files, const std::string& path);

// A back end to plan with, which lives as long as the process: it computes nothing, has the memory, types and rates of `device`, and
// leaves nothing to others. Results lie over operands where they do on the default back end, whose kernels stand for those that
// are not here; the workspaces of these do not count.
const Backend* described_backend(const std::string& name, const DeviceDescription& device);

// run.device; for `auto` the first of cuda and cpu that computes here.
std::string device_of(const RunConfig& config);

bool is_on_cpu(const RunConfig& config);

// `world` as the run's devices carry it: Backend::connect. All ranks call it, before anything opens the device.
std::unique_ptr<Communicator> with_devices(const RunConfig& config,
                                           std::unique_ptr<Communicator> world, double timeout_s);

// What a plan of the run is made for: run.device_description, else what is here. Throws as read_device(), and PlanError where
// there is neither.
const Backend* planned_backend(FileSystem& files, const RunConfig& config, const YamlNode& tree);

// Makes the device of a run that of every context to come. Throws PlanError, with the line in `tree`, where the run cannot run here:
// run.device is none of this machine's.
void check_run_device(const RunConfig& config, const YamlNode& tree);

}  // namespace mstrain
