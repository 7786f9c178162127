// Attention, both directions, against its matrix products alone: batched products of oneDNN on dense operands, whose
// scores are made in full. Causal attention needs half of them.
//
//   bench_attention [T] [B] [H] [D] [threads]        (1024 2 6 64, all processors)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "benchmarks/product_rate.h"
#include "core/exec/threads.h"
#include "core/ir/kernel.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

using Clock = std::chrono::steady_clock;

// A kernel on memory of its own.
class Runner {
 public:
  Runner(std::string_view name, const Types& in, const Attrs& attrs, int threads) {
    const OpDef& op = *find_op(name);
    const Types out = op.infer(in, attrs);
    std::vector<ViewType> inputs;
    std::vector<ViewType> outputs;
    for (const TensorType& type : in) {
      inputs.push_back(ViewType::dense(type));
      in_.push_back(allocate(type));
    }
    for (const TensorType& type : out) {
      outputs.push_back(ViewType::dense(type));
      out_.push_back(allocate(type));
    }
    kernel_ = find_kernel(Backend::kCpu, op)->prepare({op, attrs, inputs, outputs, threads});
    workspace_ = allocate({Dtype::kF32, {kernel_.workspace_bytes / 4 + 16}});
  }
  void run() { kernel_.run({in_, out_, workspace_}); }

 private:
  void* allocate(const TensorType& type) {
    buffers_.push_back(Buffer::allocate(current_context().allocator, type.bytes()));
    auto* values = reinterpret_cast<float*>(buffers_.back().data());
    uint32_t state = static_cast<uint32_t>(buffers_.size());
    for (int64_t i = 0; i < type.elements(); ++i) {
      state = state * 1664525U + 1013904223U;
      values[i] = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
    }
    return buffers_.back().data();
  }
  std::vector<Buffer> buffers_;
  std::vector<void*> in_, out_;
  void* workspace_ = nullptr;
  Kernel kernel_;
};

double seconds_of(Runner& runner) {
  runner.run();
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    const auto begin = Clock::now();
    runner.run();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[3];
}

int run(int argc, char** argv) {
  const auto number = [&](int i, int64_t otherwise) {
    return i < argc ? std::atoll(argv[i]) : otherwise;
  };
  const int64_t t = number(1, 1024), b = number(2, 2), h = number(3, 6), d = number(4, 64);
  Context context;
  context.threads = static_cast<int>(number(5, 0));
  const ContextScope scope(context);
  const int threads = context.num_threads();
  prepare_threads(threads);
  const TensorType x{Dtype::kF32, {b, t, h, d}};
  const TensorType lse{Dtype::kF32, {b, h, t}};
  std::printf("attention of %lld positions, %lld sequences, %lld heads of %lld, %d threads\n",
              static_cast<long long>(t), static_cast<long long>(b), static_cast<long long>(h),
              static_cast<long long>(d), threads);
  for (const bool causal : {false, true}) {
    const Attrs attrs{{"causal", causal}, {"scale", 0.125}};
    Runner forward("attention", {x, x, x}, attrs, threads);
    Runner backward("attention_grad", {x, x, x, x, x, lse}, attrs, threads);
    std::vector<double> ratios;
    double kernels = 0, products = 0;
    for (int round = 0; round < 5; ++round) {
      kernels = seconds_of(forward) + seconds_of(backward);
      const double scores = product_seconds(b * h, t, t, d, false, true, threads);  // q kT, g vT
      const double mixed = product_seconds(b * h, t, d, t, false, false, threads);  // p v, ds k
      const double turned = product_seconds(b * h, t, d, t, true, false, threads);  // pT g, dsT q
      // Forward: scores and a mix. Backward: scores twice, a mix, two turned.
      products = (3 * scores + 2 * mixed + 2 * turned) * (causal ? 0.5 : 1.0);
      ratios.push_back(kernels / products);
    }
    std::sort(ratios.begin(), ratios.end());
    std::printf("%-7s forward and backward %8.3f ms, its products alone %8.3f ms, ratio %.2f\n",
                causal ? "causal" : "full", kernels * 1e3, products * 1e3, ratios[2]);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run(argc, argv); }
