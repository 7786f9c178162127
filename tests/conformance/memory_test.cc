// Kernels touch what they own and nothing else: run directly, on memory with sentinels around every input, output and
// workspace. What an output held before must not matter, and every byte of it must be written.
#include <cstring>

#include "core/ir/backend.h"
#include "core/tensor/host.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

// `bytes` of memory aligned to 64, between sentinels.
class Guarded {
 public:
  Guarded(int64_t bytes, std::byte content)
      : bytes_(static_cast<size_t>(bytes)), memory_(bytes_ + 4 * kGuard, kSentinel) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    data_ = memory_.data() + kGuard + (kGuard - address % kGuard) % kGuard;
    std::memset(data_, static_cast<int>(content), bytes_);
  }
  std::byte* data() { return data_; }
  std::vector<std::byte> content() const { return {data_, data_ + bytes_}; }
  bool intact() const {
    const auto is_sentinel = [](std::byte b) { return b == kSentinel; };
    return std::all_of(memory_.data(), static_cast<const std::byte*>(data_), is_sentinel) &&
           std::all_of(static_cast<const std::byte*>(data_) + bytes_,
                       memory_.data() + memory_.size(), is_sentinel);
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kSentinel{0xC3};
  size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
};

using Bytes = std::vector<std::vector<std::byte>>;

class GuardedRun {
 public:
  // `content` fills outputs and workspace beforehand. `in_place` lets an output take the memory of an input.
  GuardedRun(const Case& it, const KernelEntry& entry, int threads, const Tensors& inputs,
             std::byte content, std::pair<int, int> in_place = {-1, -1}) {
    std::vector<ViewType> in;
    std::vector<ViewType> out;
    for (const Tensor& x : inputs) {
      in.push_back(ViewType::dense(x.type()));
      types.push_back(x.type());
      inputs_.push_back(std::make_unique<Guarded>(x.type().bytes(), content));
      if (x.type().bytes() > 0) {
        std::ranges::copy(HostRead(x).bytes(), inputs_.back()->data());
      }
    }
    types = it.op->infer(types, it.sample.attrs);
    for (const TensorType& type : types) {
      out.push_back(ViewType::dense(type));
      outputs_.push_back(std::make_unique<Guarded>(type.bytes(), content));
    }
    const Kernel kernel = entry.prepare({*it.op, it.sample.attrs, in, out, threads});
    may_share = entry.in_place;
    may_share.insert(may_share.end(), kernel.in_place.begin(), kernel.in_place.end());
    Guarded workspace(kernel.workspace_bytes, content);
    std::vector<void*> in_addresses;
    std::vector<void*> out_addresses;
    for (const auto& input : inputs_) {
      in_addresses.push_back(input->data());
    }
    for (const auto& output : outputs_) {
      out_addresses.push_back(output->data());
    }
    if (in_place.first >= 0) {
      out_addresses[static_cast<size_t>(in_place.first)] =
          in_addresses[static_cast<size_t>(in_place.second)];
    }
    kernel.run({in_addresses, out_addresses, workspace.data()});
    intact = workspace.intact();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      intact = intact && inputs_[i]->intact();
      const bool same = inputs[i].type().bytes() == 0 ||
                        std::memcmp(inputs_[i]->data(), HostRead(inputs[i]).data(),
                                    static_cast<size_t>(inputs[i].type().bytes())) == 0;
      inputs_unchanged = inputs_unchanged && (same || static_cast<int>(i) == in_place.second);
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      intact = intact && outputs_[o]->intact();
      results.push_back(static_cast<int>(o) == in_place.first
                            ? inputs_[static_cast<size_t>(in_place.second)]->content()
                            : outputs_[o]->content());
    }
  }

  bool intact = true;
  bool inputs_unchanged = true;
  Types types;  // of the outputs
  std::vector<std::pair<int, int>> may_share;
  Bytes results;

 private:
  std::vector<std::unique_ptr<Guarded>> inputs_;
  std::vector<std::unique_ptr<Guarded>> outputs_;
};

const KernelEntry* kernel_for(const Case& it, const Backend* backend, int threads) {
  const KernelEntry* entry = find_kernel(backend, *it.op);
  std::vector<ViewType> in;
  std::vector<ViewType> out;
  Types types;
  for (const SampleInput& input : it.sample.inputs) {
    types.push_back(input.type);
    in.push_back(ViewType::dense(input.type));
  }
  for (const TensorType& type : it.op->infer(types, it.sample.attrs)) {
    out.push_back(ViewType::dense(type));
  }
  const bool usable =
      entry != nullptr &&
      (entry->supports == nullptr || entry->supports({*it.op, it.sample.attrs, in, out, threads}));
  return usable ? entry : nullptr;
}

using KernelOfOp = OpTest;

TEST_P(KernelOfOp, StaysInItsMemoryAndWritesAllOfIt) {
  for (const Backend* backend : {backend_named("reference"), backend_named("cpu")}) {
    for (const Case& it : cases_of(op())) {
      const Tensors inputs = inputs_of(it);
      for (int threads : {1, 2}) {
        const KernelEntry* entry = kernel_for(it, backend, threads);
        if (entry == nullptr || (threads == 2 && backend == backend_named("reference"))) {
          continue;
        }
        SCOPED_TRACE(
            fmt::format("{}, {} kernel, {} threads", to_string(it), backend->name, threads));
        const GuardedRun first(it, *entry, threads, inputs, std::byte{0x00});
        const GuardedRun second(it, *entry, threads, inputs, std::byte{0xFF});
        ASSERT_TRUE(first.intact && second.intact) << "memory beside a tensor was written";
        ASSERT_TRUE(first.inputs_unchanged && second.inputs_unchanged) << "an input was written";
        ASSERT_EQ(first.results, second.results) << "the result depends on what memory held before";
        for (const auto& [output, input] : first.may_share) {
          const bool fits =
              static_cast<size_t>(input) < inputs.size() &&
              static_cast<size_t>(output) < first.types.size() &&
              first.types[static_cast<size_t>(output)] == inputs[static_cast<size_t>(input)].type();
          if (fits) {
            const GuardedRun over(it, *entry, threads, inputs, std::byte{0x00}, {output, input});
            ASSERT_TRUE(over.intact && over.inputs_unchanged);
            ASSERT_EQ(over.results, first.results)
                << "output " << output << " written over input " << input << " differs";
          }
        }
      }
    }
  }
}

MSTRAIN_FOR_OPS(KernelOfOp, has_samples);

// The check itself: kernels that do what they must not.
TEST(KernelCheck, SeesWhatAKernelMustNotDo) {
  const Case it = cases_of(*find_op("neg"), std::array{Dtype::kF32})[2];
  const Tensors inputs = inputs_of(it);
  const int64_t bytes = inputs[0].type().bytes();
  static int64_t at;
  const auto writes = [&](void* (*where)(const KernelMemory&), int64_t offset) {
    static void* (*place)(const KernelMemory&);
    place = where;
    at = offset;
    KernelEntry entry;
    entry.prepare = [](const KernelRequest&) {
      return Kernel{[](const KernelMemory& memory) { static_cast<char*>(place(memory))[at] = 1; },
                    64};
    };
    return GuardedRun(it, entry, 1, inputs, std::byte{0});
  };
  const auto output = [](const KernelMemory& memory) -> void* { return memory.outputs[0]; };
  const auto input = [](const KernelMemory& memory) -> void* { return memory.inputs[0]; };
  const auto workspace = [](const KernelMemory& memory) -> void* { return memory.workspace; };
  EXPECT_TRUE(writes(output, bytes - 1).intact);
  EXPECT_FALSE(writes(output, bytes).intact);
  EXPECT_FALSE(writes(output, -1).intact);
  EXPECT_FALSE(writes(input, bytes).intact);
  EXPECT_FALSE(writes(workspace, 64).intact);
  EXPECT_FALSE(writes(input, 0).inputs_unchanged);
  EXPECT_TRUE(writes(workspace, 63).intact && writes(workspace, 63).inputs_unchanged);
}

}  // namespace
}  // namespace mstrain
