// Kernels: what a back end offers for an operation. Prepared once for given types, attributes and strides, then run any
// number of times on memory of that layout.
#pragma once

#include <functional>
#include <string>

#include "core/ir/op.h"
#include "core/runtime/device.h"

namespace mstrain {

// What a kernel is prepared for. Valid during prepare() only; a kernel copies what it keeps.
struct KernelRequest {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const ViewType> inputs;   // dense unless the entry accepts strides
  std::span<const ViewType> outputs;  // always dense
  int threads = 1;
  // Bit i: input i stays as it is for many runs, and the caller would keep a packed form of it.
  uint32_t kept = 0;
  std::string_view scope = {};   // where it stands in the model, for errors
  bool batch_invariant = false;  // see Context
};

// A form that a kernel wants of one input, made of that input alone: a matrix in a library's own layout.
struct PackedInput {
  int input = -1;  // none
  int64_t bytes = 0;
  std::string layout;  // how it is read and how packed: kernels that say the same can share it
  std::function<void(const void* input, void* packed)> pack;
};

// Addresses for one run: element (0, …, 0) of every input and output, scratch memory aligned to 64 bytes, and the packed
// input where the kernel asked for one.
struct KernelMemory {
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;
  void* packed = nullptr;
  Queue* queue = nullptr;  // that the run is in, for kernels that launch on it and return
};

struct Kernel {
  // Throws Error for bad values (an id out of range), never lets one escape from a parallel region.
  // May be called by one thread at a time.
  std::function<void(const KernelMemory&)> run;
  int64_t workspace_bytes = 0;
  // Pairs (output, input) as in KernelEntry, known once it is prepared.
  std::vector<std::pair<int, int>> in_place = {};
  // One of the inputs that the request says are kept. Its address in KernelMemory::inputs is then not read.
  PackedInput packed = {};
};

struct KernelEntry {
  Kernel (*prepare)(const KernelRequest&) = nullptr;
  // Whether it can serve these types; null: all that the operation accepts.
  bool (*supports)(const KernelRequest&) = nullptr;
  // Inputs may have any strides; otherwise they are made dense first.
  bool strided_inputs = false;
  // Pairs (output, input): the output may be written over that input where both are dense and of equal type.
  std::vector<std::pair<int, int>> in_place = {};
};

}  // namespace mstrain
