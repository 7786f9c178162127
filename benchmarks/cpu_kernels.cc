// Kernels of the cpu backend at the sizes of three GPTs (tiny 4 x 128, baby 6 x 384, small 12 x 768). Each row says which
// fraction of the machine's limit it reaches; the limits are measured at the start of the same run: a large matrix
// product (FLOP/s) and a large triad (bytes/s). MSTRAIN_THREADS sets the threads (default: all processors).
#include <benchmark/benchmark.h>
#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "core/ir/backend.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

int thread_count() {
  const char* const asked = std::getenv("MSTRAIN_THREADS");
  return asked != nullptr ? std::atoi(asked) : current_context().num_threads();
}

// An operation with memory of its own, ready to run. Inputs are dense unless strides are given.
class Case {
 public:
  Case(const char* name, std::vector<ViewType> inputs, const Attrs& attrs) {
    const OpDef& op = *find_op(name);
    Types in;
    for (const ViewType& view : inputs) {
      in.push_back(view.type);
    }
    const Types out = op.infer(in, attrs);
    std::vector<ViewType> outputs;
    for (const TensorType& type : out) {
      outputs.push_back(ViewType::dense(type));
      out_.push_back(allocate(type.bytes()));
    }
    for (const ViewType& view : inputs) {
      int64_t last = 0;
      for (int d = 0; d < view.type.shape.rank(); ++d) {
        last += (view.type.shape[d] - 1) * view.strides[d];
      }
      in_.push_back(allocate((last + 1) * size_of(view.type.dtype)));
      fill(in_.back(), last + 1, view.type.dtype);
    }
    kernel_ = find_kernel(backend_named("cpu"), op)
                  ->prepare({op, attrs, inputs, outputs, thread_count()});
    workspace_ = allocate(kernel_.workspace_bytes);
    cost_ = op.cost(in, out, attrs);
  }

  void run() { kernel_.run({in_, out_, workspace_}); }
  const Cost& cost() const { return cost_; }

 private:
  void* allocate(int64_t bytes) {
    Buffer buffer = Buffer::allocate(current_context().allocator, std::max<int64_t>(bytes, 64));
    buffers_.push_back(buffer);
    return buffer.data();
  }
  // Numbers in (0, 1]: no denormals, roots and logarithms exist. Integers: below 64.
  static void fill(void* data, int64_t count, Dtype dtype) {
    uint32_t state = 1;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 1664525U + 1013904223U;
      if (dtype == Dtype::kF32) {
        static_cast<float*>(data)[i] = static_cast<float>((state >> 8) + 1) * 0x1p-24F;
      } else {
        static_cast<int32_t*>(data)[i] = static_cast<int32_t>(state >> 26);
      }
    }
  }

  Kernel kernel_;
  Cost cost_;
  std::vector<void*> in_, out_;
  void* workspace_ = nullptr;
  std::vector<Buffer> buffers_;
};

ViewType f32(const Shape& shape) { return ViewType::dense({Dtype::kF32, shape}); }
ViewType i32(const Shape& shape) { return ViewType::dense({Dtype::kI32, shape}); }

template <class F>
double best_seconds(int repeats, F&& f) {
  double best = 1e9;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

struct Limits {
  double flops = 0, bytes = 0;
  Limits() {
    Case product("dot_general", {f32({2048, 2048}), f32({2048, 2048})},
                 {{"dims", std::string("ab,bc->ac")}});
    flops = 2 * 2048.0 * 2048 * 2048 / best_seconds(10, [&] { product.run(); });
    const int64_t n = int64_t{1} << 24;
    std::vector<Buffer> buffers;
    for (int i = 0; i < 3; ++i) {
      buffers.push_back(Buffer::allocate(current_context().allocator, n * 4));
    }
    float* const a = reinterpret_cast<float*>(buffers[0].data());
    float* const b = reinterpret_cast<float*>(buffers[1].data());
    float* const c = reinterpret_cast<float*>(buffers[2].data());
    const auto triad = [&] {
#pragma omp parallel for simd num_threads(thread_count())
      for (int64_t i = 0; i < n; ++i) {
        a[i] = b[i] + 3 * c[i];
      }
    };
    std::fill(b, b + n, 1.0F);
    std::fill(c, c + n, 1.0F);
    bytes = 12.0 * static_cast<double>(n) / best_seconds(10, triad);
  }
};
const Limits& limits() {
  static const Limits measured;
  return measured;
}

enum class Bound { kFlops, kBytes };

// FLOPs and bytes are those that the operation declares. Rates are of the fastest run, as the limits are: the rest is
// what other programs took.
void measure(benchmark::State& state, Case& kernel, Bound bound) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (auto _ : state) {
    const auto begin = Clock::now();
    kernel.run();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["GFLOP/s"] = kernel.cost().flops / best * 1e-9;
  state.counters["GB/s"] = kernel.cost().bytes / best * 1e-9;
  state.counters["of_limit"] = bound == Bound::kFlops ? kernel.cost().flops / best / limits().flops
                                                      : kernel.cost().bytes / best / limits().bytes;
}

void add(const std::string& name, Bound bound, std::function<std::unique_ptr<Case>()> make) {
  const auto run = [bound, make = std::move(make)](benchmark::State& state) {
    const std::unique_ptr<Case> kernel = make();
    measure(state, *kernel, bound);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(0.2);
}

void add_op(const std::string& name, Bound bound, const char* op,
            const std::vector<ViewType>& inputs, const Attrs& attrs = {}) {
  add(name + "/" + op, bound, [=] { return std::make_unique<Case>(op, inputs, attrs); });
}

struct Size {
  const char* name;
  int64_t batch, length, heads, width, vocabulary;
};

// y = x W, dx = g Wᵀ, dW = xᵀ g
void add_products(const Size& n) {
  const int64_t rows = n.batch * n.length;
  const auto add_layer = [&](const char* layer, int64_t in, int64_t out) {
    const std::string name = std::string(n.name) + "/" + layer;
    add_op(name + "/y", Bound::kFlops, "dot_general", {f32({rows, in}), f32({in, out}), f32({out})},
           {{"dims", std::string("ab,bc->ac")}, {"epilogue", std::string("bias")}});
    add_op(name + "/dx", Bound::kFlops, "dot_general", {f32({rows, out}), f32({in, out})},
           {{"dims", std::string("ab,cb->ac")}});
    add_op(name + "/dw", Bound::kFlops, "dot_general", {f32({rows, in}), f32({rows, out})},
           {{"dims", std::string("ba,bc->ac")}});
  };
  add_layer("qkv", n.width, 3 * n.width);
  add_layer("projection", n.width, n.width);
  add_layer("mlp_up", n.width, 4 * n.width);
  add_layer("mlp_down", 4 * n.width, n.width);
  // The head shares the weight of the embedding, [vocabulary, width].
  const std::string head = std::string(n.name) + "/head";
  add_op(head + "/y", Bound::kFlops, "dot_general",
         {f32({rows, n.width}), f32({n.vocabulary, n.width})},
         {{"dims", std::string("ab,cb->ac")}});
  add_op(head + "/dx", Bound::kFlops, "dot_general",
         {f32({rows, n.vocabulary}), f32({n.vocabulary, n.width})},
         {{"dims", std::string("ab,bc->ac")}});
  add_op(head + "/dw", Bound::kFlops, "dot_general",
         {f32({rows, n.vocabulary}), f32({rows, n.width})}, {{"dims", std::string("ba,bc->ac")}});
}

void add_attention(const Size& n) {
  const int64_t d = n.width / n.heads;
  ViewType part = f32({n.batch, n.length, n.heads, d});
  part.strides = {n.length * 3 * n.width, 3 * n.width, d, 1};  // of [b, t, 3, h, d]
  const ViewType out = f32({n.batch, n.length, n.heads, d});
  const ViewType lse = f32({n.batch, n.heads, n.length});
  const Attrs attrs{{"causal", true}, {"scale", 1 / std::sqrt(static_cast<double>(d))}};
  add_op(n.name, Bound::kFlops, "attention", {part, part, part}, attrs);
  add_op(n.name, Bound::kFlops, "attention_grad", {out, part, part, part, out, lse}, attrs);
}

void add_rows(const Size& n) {
  const int64_t rows = n.batch * n.length;
  const ViewType x = f32({rows, n.width});
  const ViewType wide = f32({rows, 4 * n.width});
  const ViewType parameter = f32({n.width});
  const ViewType row = f32({rows});
  const ViewType logits = f32({rows, n.vocabulary});
  const Attrs loss{{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}};
  add_op(n.name, Bound::kBytes, "layer_norm", {x, parameter, parameter}, {{"eps", 1e-5}});
  add_op(n.name, Bound::kBytes, "layer_norm_grad", {x, x, parameter, row, row});
  add_op(n.name, Bound::kBytes, "gelu_tanh", {wide});
  add_op(n.name, Bound::kBytes, "gelu_tanh_grad", {wide, wide});
  add_op(n.name, Bound::kBytes, "add", {x, x});
  add_op(n.name, Bound::kBytes, "softmax", {logits});
  add_op(n.name, Bound::kBytes, "cross_entropy", {logits, i32({rows})}, loss);
  add_op(n.name, Bound::kBytes, "cross_entropy_grad", {row, logits, i32({rows}), row}, loss);
  add_op(std::string(n.name) + "/bias_grad", Bound::kBytes, "reduce_sum", {wide},
         {{"axes", Shape{0}}});
  add_op(n.name, Bound::kBytes, "gather", {f32({n.vocabulary, n.width}), i32({rows})},
         {{"axis", int64_t{0}}});
  add_op(n.name, Bound::kBytes, "scatter_add", {f32({n.vocabulary, n.width}), i32({rows}), x},
         {{"axis", int64_t{0}}});
}

void add_memory() {
  const ViewType x = f32({10'000'000});
  const ViewType scalar = f32({});
  add_op("10M", Bound::kBytes, "adamw", {x, x, x, x, scalar, scalar, scalar, scalar},
         {{"beta1", 0.9},
          {"beta2", 0.95},
          {"eps", 1e-8},
          {"weight_decay", 0.1},
          {"decayed", int64_t{1}}});
  add_op("10M", Bound::kBytes, "sum_squares", {x});
  add_op("10M", Bound::kBytes, "add", {x, x});
  add_op("10M", Bound::kBytes, "exp", {x});
  add_op("10M", Bound::kBytes, "reduce_sum", {x}, {{"axes", Shape{0}}});
  ViewType transposed = f32({3072, 3072});
  transposed.strides = {1, 3072};
  add_op("transpose_3072", Bound::kBytes, "copy", {transposed});
  ViewType heads = f32({16, 6, 256, 64});
  heads.strides = {256 * 384, 64, 384, 1};
  add_op("heads_16x6x256x64", Bound::kBytes, "copy", {heads});
  ViewType bias = f32({4096, 1536});
  bias.strides = {0, 1};
  add_op("bias_4096x1536", Bound::kBytes, "add", {f32({4096, 1536}), bias});
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) {
  using namespace mstrain;
  benchmark::Initialize(&argc, argv);
  omp_set_num_threads(thread_count());
  backend_named("cpu")->prepare_threads(thread_count());
  for (const Size& n : {Size{"tiny", 12, 64, 4, 128, 65}, Size{"baby", 16, 256, 6, 384, 65},
                        Size{"small", 4, 256, 12, 768, 50257}}) {
    add_products(n);
    add_attention(n);
    add_rows(n);
  }
  add_memory();
  benchmark::AddCustomContext("threads", std::to_string(thread_count()));
  benchmark::AddCustomContext("large product",
                              fmt::format("{:.1f} GFLOP/s", limits().flops * 1e-9));
  benchmark::AddCustomContext("large triad", fmt::format("{:.1f} GB/s", limits().bytes * 1e-9));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
