// Back ends: what programs are planned for and run on. A back end is one table, filled by the folder that it lives in
// (docs/adding_a_backend.md): its kernels, what it can do, its limits and rates. Passes, planner and executor ask the table
// of the context, and know no machine.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/ir/kernel.h"

namespace mstrain {

class Communicator;  // core/comm/communicator.h

// What passes keep to.
struct BackendLimits {
  // Groups of operations that run in one pass over memory: elements of the longest row that members may go over twice,
  // tensors that a group reads, operations in it.
  int64_t fused_row = 16384;
  size_t fused_inputs = 64;
  size_t fused_members = 128;
  // A wide head's logits are made in chunks of at most so many bytes, of a multiple of so many rows.
  int64_t chunk_bytes = int64_t{64} << 20;
  int64_t chunk_rows = 16;
  // The most that a loop's packed weights take (PackedInput), unless the program says otherwise; 0: none are kept.
  int64_t packed_bytes = 0;
  // Whether results should lie where the inputs of their numbers do, as programs need that are captured with their addresses.
  bool keeps_places = false;
  // Products of 16 bits have epilogues beside a bias, derivatives of activations too, and keep what activations are of.
  bool narrow_epilogues = false;
};

// What it does in a second at most, by those who made it.
struct BackendRates {
  std::array<double, kNumDtypes>
      flops{};            // of products, by the type of their operands; 0: not said
  double bytes = 0;       // to and from its memory
  double link_bytes = 0;  // from the host; 0: not said
};

struct Backend {
  std::string name;
  // Whose kernels serve where it has none, which a plan shows and a warning says. Null: that is an error, as on a device
  // whose memory no other back end can read.
  const Backend* fallback = nullptr;
  bool computes = true;  // false: programs are planned, and allocated, and not run
  // Of one that people may ask for and that not every machine has: why it does not run here; empty where it does.
  std::string (*missing)() = nullptr;
  // The device that its kernels run on, opened when first asked for. Null: the host, or its twin.
  const std::shared_ptr<Device>& (*open)() = nullptr;
  // Before that, by all ranks: this one's device is chosen, and `world`, and what it splits into, also carries what lies in the
  // devices' memory, where they can; every wait ends after `timeout_s`. Null: what ranks exchange goes through the host.
  std::unique_ptr<Communicator> (*connect)(std::unique_ptr<Communicator> world,
                                           double timeout_s) = nullptr;
  // What it exchanges by, for people. Null: nothing of its own.
  std::string (*links)() = nullptr;
  std::bitset<kNumDtypes> dtypes =
      std::bitset<kNumDtypes>().set();  // types of elements that it has
  BackendLimits limits = {};
  // Of a device with memory of its own; empty, and 0, of what runs in this machine's.
  std::string device = {};
  int64_t memory_bytes = 0;
  std::optional<BackendRates> rates = {};
  // Called by a thread before it prepares or runs kernels for `threads`, each time. Throws Error where the machine will not do.
  void (*prepare_threads)(int threads) = [](int) {};
  std::unordered_map<std::string_view, KernelEntry> kernels = {};  // by OpDef::name
};

// Makes a back end known, and gives the table to be filled. Tables live as long as the process and change no more once a program is
// compiled. Throws Error where there is one of this name. Thread-safe.
Backend& add_backend(Backend backend);

// In the order in which they were added.
std::vector<const Backend*> all_backends();
// Null where there is none.
const Backend* find_backend(std::string_view name);
// Throws Error, with the nearest name.
const Backend* backend_named(std::string_view name);

// Enters a kernel into a table. Throws Error for an unknown operation, and for one that has a kernel.
void register_kernel(Backend& backend, std::string_view op, KernelEntry entry);

// The back end's kernel for an operation; null where it has none.
const KernelEntry* find_kernel(const Backend* backend, const OpDef& op);

// How long a kernel takes at least at the back end's rates: as long as its arithmetic, or its memory if that is longer.
// `operands` says which type it is made in: the first that floats or has a rate.
double seconds_of(const BackendRates& rates, const Cost& cost, std::span<const Dtype> operands);

}  // namespace mstrain
