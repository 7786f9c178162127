#include "core/train/machine_limits.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/ops/build.h"
#include "core/ops/matmul.h"
#include "core/ops/shape.h"
#include "core/tensor/jit.h"
#include "core/train/machine.h"

namespace mstrain {
namespace {

constexpr int64_t kProductSize = 2048;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kLeastRuns = 3;
constexpr auto kLongEnough = std::chrono::milliseconds(150);

// Beyond what the last cache holds, within reason.
int64_t copied_bytes() {
  return std::clamp(2 * static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE)), 64 * kMiB,
                    128 * kMiB);
}

using Function = std::function<Tensor(std::span<const Tensor>)>;

// `amount` by the time of the fastest kernel of `f` on tensors of `types`.
double fastest(const Types& types, const Function& f, double amount) {
  Tensors captures;
  const GraphPtr graph = trace_program(
      types, [&](std::span<const Tensor> x) { return Tensors{f(x)}; }, &captures);
  const std::unique_ptr<Program> program = compile(*graph);
  Tensors inputs;
  for (const TensorType& type : types) {
    inputs.push_back(copy(full(type.shape, 0.5, type.dtype)));
  }
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  std::vector<KernelTime> times;
  const auto end = std::chrono::steady_clock::now() + kLongEnough;
  for (int run = 0; run < kLeastRuns || std::chrono::steady_clock::now() < end; ++run) {
    program->profile(&times);  // waits for the run before, where it comes late
    program->run(inputs);
  }
  program->profile(nullptr);
  double best = 0;
  for (const KernelTime& time : times) {
    const auto nanoseconds = static_cast<double>(std::max<int64_t>(time.end - time.begin, 1));
    best = std::max(best, 1e9 * amount / nanoseconds);
  }
  return best;
}

// Nothing stays of its tensors.
Context with_own_memory(const Context& context) {
  Context own = context;
  own.allocator = std::make_shared<Allocator>(0, context.allocator->device());
  return own;
}

}  // namespace

double product_rate(const Context& context, Dtype dtype) {
  const Context own = with_own_memory(context);
  const ContextScope scope(own);
  const TensorType matrix{dtype, {kProductSize, kProductSize}};
  constexpr auto kSize = static_cast<double>(kProductSize);
  return fastest(
      {matrix, matrix}, [](std::span<const Tensor> x) { return matmul(x[0], x[1]); },
      2 * kSize * kSize * kSize);
}

MachineLimits measure_limits(const Context& context) {
  const UncountedMemory uncounted;
  const Context own = with_own_memory(context);
  const ContextScope scope(own);
  MachineLimits limits;
  limits.product_size = kProductSize;
  limits.copied_bytes = copied_bytes();
  limits.flops_per_second = product_rate(context, Dtype::kF32);
  // A program that returns its argument copies it.
  const TensorType array{Dtype::kF32, {limits.copied_bytes / size_of(Dtype::kF32)}};
  limits.bytes_per_second = fastest(
      {array}, [](std::span<const Tensor> x) { return x[0]; },
      2 * static_cast<double>(limits.copied_bytes));
  return limits;
}

}  // namespace mstrain
