// Attention in its forms, both directions, against its matrix products alone: batched products of oneDNN on dense operands,
// whose scores are made in full. Counted is the share of them that attention needs: half of a causal square, the band of a
// window, what a mask leaves.
//
//   bench_attention [T] [B] [H] [D] [threads]        (1024 2 6 64, all processors)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "benchmarks/product_rate.h"
#include "core/ir/backend.h"
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
    kernel_ = find_kernel(backend_named("cpu"), op)->prepare({op, attrs, inputs, outputs, threads});
    workspace_ = allocate({Dtype::kF32, {kernel_.workspace_bytes / 4 + 16}});
  }
  void run() { kernel_.run({in_, out_, workspace_}); }

 private:
  void* allocate(const TensorType& type) {
    buffers_.push_back(Buffer::allocate(current_context().allocator, type.bytes()));
    if (type.dtype == Dtype::kBool) {  // the last quarter of each row is padding
      auto* seen = reinterpret_cast<bool*>(buffers_.back().data());
      const int64_t row = type.shape[1];
      for (int64_t i = 0; i < type.elements(); ++i) {
        seen[i] = i % row < row - row / 4;
      }
      return buffers_.back().data();
    }
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

struct Form {
  const char* name;
  double share;  // of the pairs of queries and keys that see each other
  int64_t key_heads;
  Attrs attrs = {};
  Types more = {};  // inputs after q, k and v
};

std::vector<Form> forms(int64_t t, int64_t b, int64_t h) {
  const double window = 1.0 / 8;
  const Attrs plain{{"causal", false}, {"scale", 0.125}};
  const Attrs causal = plain.with("causal", true);
  std::vector<Form> all{
      {"full", 1, h, plain},
      {"causal", 0.5, h, causal},
      {"window of T / 8", window - window * window / 2, h, causal.with("window", t / 8)},
      {"relative bias",
       1,
       h,
       plain.with("max_distance", int64_t{128}).with("bidirectional", true),
       {{Dtype::kF32, {1, 32, h}}}},
      {"padded by T / 4", 0.75, h, plain.with("masked", true), {{Dtype::kBool, {b, t}}}}};
  if (h % 3 == 0) {
    all.push_back({"causal, H / 3 key heads", 0.5, h / 3, causal});
  }
  return all;
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
  backend_named("cpu")->prepare_threads(threads);
  const TensorType x{Dtype::kF32, {b, t, h, d}};
  const TensorType lse{Dtype::kF32, {b, h, t}};
  std::printf("attention of %lld positions, %lld sequences, %lld heads of %lld, %d threads\n",
              static_cast<long long>(t), static_cast<long long>(b), static_cast<long long>(h),
              static_cast<long long>(d), threads);
  for (const Form& form : forms(t, b, h)) {
    const TensorType keys{Dtype::kF32, {b, t, form.key_heads, d}};
    Types in{x, keys, keys};
    in.insert(in.end(), form.more.begin(), form.more.end());
    Types in_grad = in;
    in_grad.insert(in_grad.begin(), x);
    in_grad.insert(in_grad.end(), {x, lse});
    Runner forward("attention", in, form.attrs, threads);
    Runner backward("attention_grad", in_grad, form.attrs, threads);
    std::vector<double> ratios;
    double kernels = 0, products = 0;
    for (int round = 0; round < 5; ++round) {
      kernels = seconds_of(forward) + seconds_of(backward);
      const double scores = product_seconds(b * h, t, t, d, false, true, threads);  // q kT, g vT
      const double mixed = product_seconds(b * h, t, d, t, false, false, threads);  // p v, ds k
      const double turned = product_seconds(b * h, t, d, t, true, false, threads);  // pT g, dsT q
      // Forward: scores and a mix. Backward: scores twice, a mix, two turned.
      products = (3 * scores + 2 * mixed + 2 * turned) * form.share;
      ratios.push_back(kernels / products);
    }
    std::sort(ratios.begin(), ratios.end());
    std::printf("%-24s forward and backward %8.3f ms, its products alone %8.3f ms, ratio %.2f\n",
                form.name, kernels * 1e3, products * 1e3, ratios[2]);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run(argc, argv); }
