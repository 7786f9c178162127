#include "core/train/run_device.h"

#include <deque>
#include <mutex>

#include "core/base/error.h"
#include "core/base/missing_file.h"
#include "core/comm/communicator.h"
#include "core/ir/halves.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargestDescription = 1 << 20;

// A kernel of the back end that the description is of, which asks nothing of the device before it runs.
Kernel prepare_own(const KernelRequest& request) {
  Kernel made = find_kernel(find_backend("cuda"), request.op)->prepare(request);
  const bool in_halves = halves_of(made) != nullptr;
  made.run = {};
  if (in_halves) {
    made.run = Halves{};
  }
  return made;
}

// What the default back end's kernel overwrites, and nothing else of it.
Kernel prepare_described(const KernelRequest& request) {
  const KernelEntry* const entry = find_kernel(default_backend(), request.op);
  if (entry == nullptr) {
    return {};
  }
  const Kernel made =
      entry->prepare({request.op, request.attrs, request.inputs, request.outputs, /*threads=*/1});
  return {.run = {}, .in_place = made.in_place};
}

BackendRates rates_of(const DeviceDescription& device) {
  BackendRates rates{.bytes = device.memory_gbps * 1e9,
                     .link_bytes = device.link_gbps.value_or(0) * 1e9};
  const PeakRates& peak = device.peak_tflops;
  for (const auto& [type, rate] : {std::pair(Dtype::kF64, peak.fp64),
                                   {Dtype::kF32, peak.fp32},
                                   {Dtype::kBF16, peak.bf16},
                                   {Dtype::kF16, peak.fp16},
                                   {Dtype::kU8, peak.fp8}}) {
    rates.flops[static_cast<size_t>(type)] = rate.value_or(0) * 1e12;
  }
  return rates;
}

bool is_here(const std::string& device) {
  const Backend* const backend = find_backend(device);
  return backend != nullptr && backend->computes &&
         (backend->missing == nullptr || backend->missing().empty());
}

// No key is wrong, but the machine.
[[noreturn]] void refuse(const YamlNode& tree, const std::string& device,
                         const std::string& advice) {
  const Backend* const backend = find_backend(device);
  const bool knows = backend != nullptr && backend->missing != nullptr;
  try {
    config_fail(
        tree, "run.device",
        fmt::format("{} does not run here ({}); {}", device,
                    knows ? backend->missing() : "this build has no such back end", advice));
  } catch (const ConfigError& error) {
    throw PlanError(error.what());
  }
}

}  // namespace

DeviceDescription read_device(FileSystem& files, const std::string& path) {
  check_exists(files, path);
  DeviceDescription device;
  read_config(parse_yaml(files.read(path, kLargestDescription), path), device);
  return device;
}

const Backend* described_backend(const std::string& name, const DeviceDescription& device) {
  Backend backend{.name = name,
                  .computes = false,
                  .device = device.name,
                  .memory_bytes = static_cast<int64_t>(device.memory_gb * 1e9),
                  .rates = rates_of(device)};
  const Backend* const named = find_backend(name);
  const Backend* const own = named != nullptr && named->open != nullptr ? named : nullptr;
  backend.kernels = (own != nullptr ? own : default_backend())->kernels;
  if (own != nullptr) {
    backend.limits = own->limits;
  }
  if (own == nullptr && device.peak_tflops.fp8) {
    backend.kernels.try_emplace("float8_product");  // which the default back end makes of others
  }
  for (auto& [op, entry] : backend.kernels) {
    entry.prepare = own != nullptr ? prepare_own : prepare_described;
    if (own != nullptr) {
      continue;
    }
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

std::string device_of(const RunConfig& config) {
  return config.device != "auto" ? config.device : is_here("cuda") ? "cuda" : "cpu";
}

bool is_on_cpu(const RunConfig& config) { return device_of(config) == "cpu"; }

std::unique_ptr<Communicator> with_devices(const RunConfig& config,
                                           std::unique_ptr<Communicator> world, double timeout_s) {
  const Backend* const backend = find_backend(device_of(config));
  const bool connects = backend != nullptr && backend->connect != nullptr && world->size() > 1;
  return connects ? backend->connect(std::move(world), timeout_s) : std::move(world);
}

const Backend* planned_backend(FileSystem& files, const RunConfig& config, const YamlNode& tree) {
  if (config.device_description) {
    return described_backend(config.device == "auto" ? "cuda" : config.device,
                             read_device(files, *config.device_description));
  }
  const std::string device = device_of(config);
  if (!is_here(device)) {
    refuse(tree, device,
           "to plan for one say what it is, as in "
           "run.device_description=configs/devices/h100_80gb.yaml");
  }
  return find_backend(device);
}

void check_run_device(const RunConfig& config, const YamlNode& tree) {
  if (const std::string device = device_of(config); !is_here(device)) {
    refuse(tree, device, "--dry-run plans for one that run.device_description describes");
  }
}

}  // namespace mstrain
