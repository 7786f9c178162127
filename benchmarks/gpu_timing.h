// Times kernels of the CUDA back end alone, on memory of their own. By events of the card, and with other things in its L2 than
// what a kernel reads, as in a step of training.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/backends/cuda/device.h"
#include "core/ir/backend.h"
#include "core/ir/fallback.h"
#include "core/runtime/dtype.h"

namespace mstrain::gpu {

// Memory of the card.
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(bytes), at_(cuda::device()->allocate(bytes)) {}
  ~Memory() {
    if (at_ != nullptr) {
      cuda::device()->release(at_, bytes_);
    }
  }
  Memory(Memory&& other) noexcept : bytes_(other.bytes_), at_(std::exchange(other.at_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;

  void* at() const { return at_; }
  int64_t bytes() const { return bytes_; }
  // Both return when the bytes have arrived.
  void write(const void* from) const { copy(address(at_), address(from)); }
  std::vector<std::byte> read() const {
    std::vector<std::byte> to(static_cast<size_t>(bytes_));
    copy(address(to.data()), address(at_));
    return to;
  }
  static cuda::Driver::Address address(const void* at) {
    return reinterpret_cast<cuda::Driver::Address>(at);
  }

 private:
  void copy(cuda::Driver::Address to, cuda::Driver::Address from) const {
    cuda::bind_context();
    const cuda::Driver::Handle stream =
        cuda::stream_of(cuda::device()->queue(Device::Use::kKernels));
    cuda::check_driver(cuda::driver().copy(to, from, static_cast<size_t>(bytes_), stream),
                       "cuMemcpyAsync");
    cuda::check_driver(cuda::driver().wait_stream(stream), "cuStreamSynchronize");
  }

  int64_t bytes_;
  void* at_;
};

// `count` numbers of unit variance, as bf16, the same for the same seed.
inline std::vector<uint16_t> random_bf16(int64_t count, uint32_t seed) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  uint64_t state = seed + 1;
  for (uint16_t& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const float uniform = static_cast<float>(state >> 40U) * 0x1p-24F - 0.5F;
    value = BFloat16(uniform * 3.4641016F).bits;
  }
  return values;
}

// An operation's kernel on dense operands of its own, whose elements are whatever is written to `in`.
class Operation {
 public:
  Operation(std::string_view name, const Types& types, const Attrs& attrs) {
    const OpDef& op = *find_op(name);
    std::vector<ViewType> inputs, outputs;
    const auto add = [](const Types& all, std::vector<ViewType>& views,
                        std::vector<Memory>& memory) {
      for (const TensorType& type : all) {
        views.push_back(ViewType::dense(type));
        memory.emplace_back(std::max<int64_t>(type.bytes(), 1));
      }
    };
    add(types, inputs, in);
    add(op.infer(types, attrs), outputs, out);
    const KernelRequest request{op, attrs, inputs, outputs};
    const KernelEntry* const entry = usable_kernel(backend_named("cuda"), request);
    check(entry != nullptr, "the card has no kernel for this {}", name);
    kernel_ = entry->prepare(request);
    workspace_.emplace_back(std::max<int64_t>(kernel_.workspace_bytes, 1));
  }

  // Gives it to the card.
  void launch() {
    std::vector<void*> inputs, outputs;
    for (const Memory& memory : in) {
      inputs.push_back(memory.at());
    }
    for (const Memory& memory : out) {
      outputs.push_back(memory.at());
    }
    kernel_.run({.inputs = inputs,
                 .outputs = outputs,
                 .workspace = workspace_[0].at(),
                 .queue = &cuda::device()->queue(Device::Use::kKernels)});
  }

  std::vector<Memory> in, out;

 private:
  std::vector<Memory> workspace_;
  Kernel kernel_;
};

// The median of so many runs of what `launch` gives to the card's stream of kernels, in milliseconds. The first is not counted.
inline double median_milliseconds(const std::function<void()>& launch, int runs = 15) {
  constexpr int64_t kMoreThanCache = int64_t{160} << 20U;
  static const Memory& from = *new Memory(kMoreThanCache);
  static const Memory& to = *new Memory(kMoreThanCache);
  // What was written last has left the cache before the clock starts.
  static Operation& reader =
      *new Operation("sum_squares", {{Dtype::kF32, {kMoreThanCache / 4}}}, {});
  const cuda::Driver& driver = cuda::driver();
  const cuda::Driver::Handle stream = cuda::stream_of(cuda::device()->queue(Device::Use::kKernels));
  cuda::bind_context();
  std::vector<cuda::Driver::Handle> events(static_cast<size_t>(2 * (runs + 1)));
  for (size_t i = 0; i < events.size(); i += 2) {
    cuda::check_driver(driver.copy(Memory::address(to.at()), Memory::address(from.at()),
                                   static_cast<size_t>(kMoreThanCache), stream),
                       "cuMemcpyAsync");
    reader.launch();
    for (size_t which : {i, i + 1}) {
      cuda::check_driver(driver.create_event(&events[which], 0), "cuEventCreate");
    }
    cuda::check_driver(driver.record_event(events[i], stream), "cuEventRecord");
    launch();
    cuda::check_driver(driver.record_event(events[i + 1], stream), "cuEventRecord");
  }
  cuda::check_driver(driver.wait_stream(stream), "cuStreamSynchronize");
  std::vector<float> times;
  for (size_t i = 2; i < events.size(); i += 2) {
    times.emplace_back();
    cuda::check_driver(driver.time_between(&times.back(), events[i], events[i + 1]),
                       "cuEventElapsedTime");
  }
  for (const cuda::Driver::Handle event : events) {
    driver.destroy_event(event);
  }
  std::ranges::nth_element(times, times.begin() + runs / 2);
  return times[static_cast<size_t>(runs / 2)];
}

}  // namespace mstrain::gpu
