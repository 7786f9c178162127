#include "core/train/run_device.h"

#include <deque>
#include <mutex>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargestDescription = 1 << 20;

// What the default back end's kernel overwrites, and nothing else of it.
Kernel prepare_described(const KernelRequest& request) {
  const KernelEntry& entry = *find_kernel(default_backend(), request.op);
  const Kernel made =
      entry.prepare({request.op, request.attrs, request.inputs, request.outputs, /*threads=*/1});
  return {.run = {}, .in_place = made.in_place};
}

BackendRates rates_of(const DeviceDescription& device) {
  BackendRates rates{.bytes = device.memory_gbps * 1e9,
                     .link_bytes = device.link_gbps.value_or(0) * 1e9};
  const PeakRates& peak = device.peak_tflops;
  for (const auto& [type, rate] : {std::pair(Dtype::kF64, peak.fp64),
                                   {Dtype::kF32, peak.fp32},
                                   {Dtype::kBF16, peak.bf16},
                                   {Dtype::kF16, peak.fp16}}) {
    rates.flops[static_cast<size_t>(type)] = rate.value_or(0) * 1e12;
  }
  return rates;
}

bool is_here(const std::string& device) {
  const Backend* const backend = find_backend(device);
  return backend != nullptr && backend->computes;
}

}  // namespace

DeviceDescription read_device(FileSystem& files, const std::string& path) {
  DeviceDescription device;
  read_config(parse_yaml(files.read(path, kLargestDescription), path), device);
  return device;
}

const Backend* described_backend(const std::string& name, const DeviceDescription& device) {
  Backend backend{.name = name,
                  .computes = false,
                  .device = device.name,
                  .memory_bytes = static_cast<int64_t>(device.memory_gb * 1e9),
                  .rates = rates_of(device),
                  .kernels = default_backend()->kernels};
  for (auto& [op, entry] : backend.kernels) {
    entry.prepare = prepare_described;
    // Kernels of its own read numbers of 16 bits where it has them.
    if (device.peak_tflops.bf16 || device.peak_tflops.fp16) {
      entry.supports = nullptr;
    }
  }
  for (Dtype type : kAllDtypes) {
    const auto at = static_cast<size_t>(type);
    backend.dtypes[at] = !is_floating(type) || backend.rates->flops[at] > 0;
  }
  static std::mutex mutex;
  static std::deque<Backend> described;
  const std::lock_guard lock(mutex);
  return &described.emplace_back(std::move(backend));
}

const Backend* planned_backend(FileSystem& files, const RunConfig& config, const YamlNode& tree) {
  if (config.device_description) {
    return described_backend(config.device, read_device(files, *config.device_description));
  }
  if (!is_here(config.device)) {
    config_fail(tree, "run.device",
                fmt::format("this build has no {0}; to plan for one say what it is, as in "
                            "run.device_description=configs/devices/h100_80gb.yaml",
                            config.device));
  }
  return find_backend(config.device);
}

void check_run_device(const RunConfig& config, const YamlNode& tree) {
  if (!is_here(config.device)) {
    config_fail(tree, "run.device",
                fmt::format("this build has no {}; --dry-run plans for one that "
                            "run.device_description describes",
                            config.device));
  }
}

}  // namespace mstrain
