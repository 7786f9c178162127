#include "core/forecast/here.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/processors.h"
#include "core/comm/thread_communicator.h"
#include "core/ir/backend.h"
#include "core/nn/layers.h"
#include "core/ops/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/jit.h"
#include "core/train/machine.h"
#include "core/train/machine_limits.h"
#include "core/transform/grad.h"

namespace mstrain {
namespace {

// Of the layers that are measured. What kernels do beside their sums is a larger part of the smaller ones'.
struct LayerSize {
  int64_t rows, tokens, width, head;

  // For each of attention's operations: a score takes part in two products over the width of a head forward, and in five backward.
  double scores_an_operation() const { return 2.0 / static_cast<double>(7 * 2 * head); }
};
constexpr LayerSize kLayers[] = {{4, 128, 256, 64}, {4, 128, 128, 32}};
// What one leaves for its backward pass is in memory by then, as in a run.
constexpr int kDepth = 6;
constexpr double kLongEnough = 2;  // seconds, for both
constexpr int64_t kExchanged = int64_t{4} << 20;
constexpr int kExchanges = 20;

// A transformer's layer.
Tensor layer(const LayerSize& size, const Params& p, const Tensor& x_btc) {
  const Shape heads{size.width / size.head, size.head};
  const Tensor normed = layer_norm(p / "ln_1", x_btc);
  const Tensor seen = attention(linear(p / "q", normed, heads), linear(p / "k", normed, heads),
                                linear(p / "v", normed, heads), {.causal = true});
  const Tensor after = x_btc + linear(p / "proj", seen, {size.width}, {.in_dims = 2});
  const Tensor wide = gelu_tanh(linear(p / "fc", layer_norm(p / "ln_2", after), {4 * size.width}));
  return after + linear(p / "out", wide, {size.width});
}

// Several of them, and the sum of what they give.
Tensor layers(const LayerSize& size, const Params& p, const Tensor& x_btc) {
  Tensor out_btc = x_btc;
  for (int i = 0; i < kDepth; ++i) {
    out_btc = layer(size, p / "h" / i, out_btc);
  }
  return sum(square(out_btc));
}

// What kernels of a layer's forward and backward pass reach, while other ranks do the same.
struct LayerRates {
  double attention = 0;  // operations a second
  double memory = 0;     // bytes a second
  double launch = 0;     // seconds between two kernels
};

bool is_product(const KernelTime& time) { return time.op.starts_with("dot_general"); }

LayerRates rates_of(std::span<const KernelTime> times, int64_t nanoseconds) {
  struct Sum {
    double amount = 0, nanoseconds = 0;
    double rate() const { return 1e9 * amount / nanoseconds; }
  } attention, memory;
  double kernels = 0;
  for (const KernelTime& time : times) {
    const auto taken = static_cast<double>(time.end - time.begin);
    kernels += taken;
    if (!is_product(time)) {
      const bool attends = time.op.starts_with("attention");
      Sum& sum = attends ? attention : memory;
      sum.amount += attends ? time.flops : time.bytes;
      sum.nanoseconds += taken;
    }
  }
  return {attention.rate(), memory.rate(),
          std::max(0.0, static_cast<double>(nanoseconds) - kernels) /
              static_cast<double>(times.size()) / 1e9};
}

// What else the machine does disturbs some passes.
double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct ProductTime {
  double flops, bytes, seconds;
};

// Forward and backward passes of layers of one size.
class MeasuredLayers {
 public:
  explicit MeasuredLayers(const LayerSize& size) {
    const Shape batch{size.rows, size.tokens, size.width};
    const std::vector<ParamSpec> specs = declare_params([&](const Params& p) {
      layers(size, p, zeros({Dtype::kF32, batch}));
    });
    Types types{{Dtype::kF32, batch}};
    for (const ParamSpec& spec : specs) {
      types.push_back(spec.type);
    }
    Tensors captures;
    const GraphPtr graph = trace_program(
        types,
        [&](std::span<const Tensor> inputs) {
          Params params;
          for (size_t i = 0; i < specs.size(); ++i) {
            params.set(specs[i].name, inputs[i + 1]);
          }
          const Params gradient =
              grad([&](const Params& p) { return layers(size, p, inputs[0]); })(params);
          Tensors out;
          for (size_t i = 0; i < gradient.size(); ++i) {
            out.push_back(gradient.tensor(i));
          }
          return out;
        },
        &captures);
    program_ = compile(*graph);
    for (const TensorType& type : types) {
      inputs_.push_back(copy(full(type.shape, 0.02, type.dtype)));
    }
    inputs_.insert(inputs_.end(), captures.begin(), captures.end());
    program_->run(inputs_);
  }

  void pass() {
    const int64_t begin = nanoseconds_now();
    times_.clear();
    program_->profile(&times_);
    program_->run(inputs_);
    program_->profile(nullptr);
    const LayerRates rates = rates_of(times_, nanoseconds_now() - begin);
    attention_.push_back(rates.attention);
    memory_.push_back(rates.memory);
    launch_.push_back(rates.launch);
    size_t product = 0;
    for (const KernelTime& time : times_) {
      if (is_product(time)) {
        products_.resize(std::max(products_.size(), product + 1), {time.flops, time.bytes, {}});
        products_[product++].seconds.push_back(static_cast<double>(time.end - time.begin) / 1e9);
      }
    }
  }

  LayerRates rates() const { return {middle(attention_), middle(memory_), middle(launch_)}; }
  void add_products(std::vector<ProductTime>* all) const {
    for (const Product& product : products_) {
      all->push_back({product.flops, product.bytes, middle(product.seconds)});
    }
  }

 private:
  struct Product {
    double flops, bytes;
    std::vector<double> seconds;  // of each pass, as the following
  };
  std::unique_ptr<Program> program_;
  Tensors inputs_;
  std::vector<KernelTime> times_;
  std::vector<double> attention_, memory_, launch_;
  std::vector<Product> products_;
};

// Passes of both sizes in turns, which all ranks begin together. Those that do not work have no layers, and wait. How much longer than
// its own pass it takes until all ranks have ended theirs: what else the machine does disturbs one rank or the other, and each step
// waits for the last.
double measure_in_turns(Communicator& world, std::span<MeasuredLayers> sizes) {
  const auto meet = [&] { world.barrier("passes"); };
  double seconds = 0;  // of one pass of each
  for (MeasuredLayers& layers : sizes) {
    const int64_t begin = nanoseconds_now();
    layers.pass();
    seconds += static_cast<double>(nanoseconds_now() - begin) / 1e9;
  }
  const Elements longest{&seconds, 1, Dtype::kF64};
  world.all_reduce(longest, longest, Reduction::kMax, "passes").wait();
  const auto passes = static_cast<int>(std::clamp(kLongEnough / seconds, 3.0, 200.0));
  std::array<std::vector<double>, std::size(kLayers)> own, together;
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t size = 0; size < std::size(kLayers); ++size) {
      meet();
      const int64_t begin = nanoseconds_now();
      if (!sizes.empty()) {
        sizes[size].pass();
      }
      own[size].push_back(static_cast<double>(nanoseconds_now() - begin));
      meet();
      together[size].push_back(static_cast<double>(nanoseconds_now() - begin));
    }
  }
  double ratio = 0;
  for (size_t size = 0; size < std::size(kLayers); ++size) {
    ratio += middle(together[size]) / middle(own[size]) / std::size(kLayers);
  }
  return ratio;
}

// Operations and bytes a second of products that do one after the other: of least squares of what their times would be off by, each
// alike. No bytes: they take no time of their own.
struct ProductRates {
  double sums = 0;
  std::optional<double> operands;
};

ProductRates split(std::span<const ProductTime> products) {
  double ff = 0, fb = 0, bb = 0, f = 0, b = 0;
  for (const ProductTime& product : products) {
    const double flops = product.flops / product.seconds;
    const double bytes = product.bytes / product.seconds;
    ff += flops * flops;
    fb += flops * bytes;
    bb += bytes * bytes;
    f += flops;
    b += bytes;
  }
  const double determinant = ff * bb - fb * fb;
  const double of_operation = (f * bb - b * fb) / determinant;
  const double of_byte = (b * ff - f * fb) / determinant;
  if (of_operation > 0 && of_byte > 0) {
    return {1 / of_operation, 1 / of_byte};
  }
  return {ff / f, std::nullopt};
}

// Keeps a processor of this thread busy as long as it lives, as a rank would that shares it.
class Company {
 public:
  explicit Company(bool is_there) {
    if (is_there) {
      thread_ = std::thread([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~Company() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Seconds of an exchange of so many bytes of each rank, by all of them.
double exchange_seconds(Communicator& world, int64_t bytes) {
  const auto ranks = static_cast<size_t>(world.size());
  const std::vector<int64_t> counts(ranks, bytes / static_cast<int64_t>(sizeof(float) * ranks));
  std::vector<float> part(static_cast<size_t>(counts[0]), 1);
  std::vector<float> whole(part.size() * ranks, 1);
  const Elements mine{part.data(), counts[0], Dtype::kF32};
  const Elements all{whole.data(), static_cast<int64_t>(whole.size()), Dtype::kF32};
  int64_t begin = 0;
  for (int i = 0; i < kExchanges + 2; ++i) {
    if (i == 2) {  // pages are touched
      world.barrier("exchanges");
      begin = nanoseconds_now();
    }
    world.reduce_scatter(all, mine, counts, Reduction::kSum, "reduce_scatter").wait();
    world.all_gather(mine, all, counts, "all_gather").wait();
  }
  return static_cast<double>(nanoseconds_now() - begin) / 1e9 / (2 * kExchanges);
}

// The mean over the ranks that worked, on all of them.
double mean(Communicator& world, double value, bool worked) {
  std::array<double, 2> sums{worked ? value : 0, worked ? 1.0 : 0.0};
  const Elements both{sums.data(), 2, Dtype::kF64};
  world.all_reduce(both, both, Reduction::kSum, "rates").wait();
  return sums[0] / sums[1];
}

// Leaves this thread, and those that it starts, what a run leaves its rank of so many.
void take_processors(int rank, int ranks) {
  if (ranks <= processors_here()) {
    const cpu_set_t mine = share_of(own_processors(), rank, ranks);
    sched_setaffinity(0, sizeof mine, &mine);
  }
}

// That the ranks may use together: each sees its own alone.
int64_t processors_of(Communicator& world) {
  const cpu_set_t mine = own_processors();
  std::array<int32_t, CPU_SETSIZE> bits{};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    bits[static_cast<size_t>(i)] = CPU_ISSET(i, &mine) ? 1 : 0;
  }
  const Elements all{bits.data(), CPU_SETSIZE, Dtype::kI32};
  world.all_reduce(all, all, Reduction::kMax, "processors").wait();
  return std::count(bits.begin(), bits.end(), 1);
}

double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

}  // namespace

AttentionTime split_attention(const MeasuredAttention& larger, const MeasuredAttention& smaller,
                              double least) {
  const double told = (smaller.seconds - larger.seconds) /
                      (smaller.scores_an_operation - larger.scores_an_operation);
  const double most = std::max(0.0, larger.seconds - least) / larger.scores_an_operation;
  const double of_score = std::clamp(told, 0.0, most);
  return {larger.seconds - of_score * larger.scores_an_operation, of_score};
}

Cluster measure_here(const Context& context, Communicator& world) {
  const UncountedMemory uncounted;
  Context own = context;
  own.ranks = nullptr;
  const ContextScope scope(own);
  const Machine machine = this_machine();
  const int threads = own.num_threads();
  const int64_t processors = std::max<int64_t>(1, processors_of(world) / threads);
  const bool works = world.rank() < processors;
  const auto meet = [&] { world.barrier("rates"); };
  meet();
  MachineLimits limits;
  double bf16 = 0;
  if (works) {
    limits = measure_limits(own);
    bf16 = product_rate(own, Dtype::kBF16);
  }
  meet();
  std::vector<MeasuredLayers> sizes;
  if (works) {
    for (const LayerSize& size : kLayers) {
      sizes.emplace_back(size);
    }
  }
  const double waits = measure_in_turns(world, sizes);
  LayerRates rates;
  double of_score = 0;  // seconds
  ProductRates of_products;
  if (works) {
    std::vector<ProductTime> times;
    for (const MeasuredLayers& layers : sizes) {
      layers.add_products(&times);
    }
    rates = sizes[0].rates();
    const AttentionTime taken =
        split_attention({1 / rates.attention, kLayers[0].scores_an_operation()},
                        {1 / sizes[1].rates().attention, kLayers[1].scores_an_operation()},
                        1 / limits.flops_per_second);
    of_score = taken.of_score * waits;
    rates = {.attention = 1 / taken.of_operation / waits,
             .memory = rates.memory / waits,
             .launch = rates.launch * waits};
    of_products = split(times);
    of_products.sums /= waits;
    if (of_products.operands) {
      *of_products.operands /= waits;
    }
  }
  sizes.clear();
  const auto of_ranks = [&](double value) { return mean(world, value, works); };
  const auto ranks = static_cast<double>(world.size());
  Cluster out;
  out.gpus_per_node = world.size();
  const double products = of_ranks(of_products.sums);
  const double of_byte = of_ranks(of_products.operands ? 1 / *of_products.operands : 0);
  const double attention = of_ranks(rates.attention);
  const double memory = of_ranks(rates.memory);
  ClusterDevice& device = out.device;
  device.name = fmt::format("{}, {} thread{}", machine.processor, threads, threads == 1 ? "" : "s");
  device.memory_gb = rounded(static_cast<double>(machine.memory_bytes) / 1e9 / ranks);
  const double peak = std::max(of_ranks(limits.flops_per_second), products);
  const double copied = std::max(of_ranks(limits.bytes_per_second), memory);
  device.peak_tflops = {.fp32 = rounded(peak / 1e12), .bf16 = rounded(of_ranks(bf16) / 1e12)};
  device.memory_gbps = rounded(copied / 1e9);
  if (of_byte > 0) {
    device.operand_gbps = rounded(1 / of_byte / 1e9);
  }
  if (const double seconds = of_ranks(of_score); seconds > 0) {
    device.scores_gps = rounded(1 / seconds / 1e9);
  }
  device.launch_us = rounded(of_ranks(rates.launch) * 1e6);
  device.achieved = {.products = rounded(products / peak),
                     .attention = rounded(std::min(1.0, attention / peak)),
                     .memory = rounded(memory / copied),
                     .links = 1};
  out.intra = {device.memory_gbps, 0};
  if (world.size() > 1) {
    const double small = [&] {
      // Where ranks take turns, who is sent something may have to wait for its own.
      const Company company(works && processors < world.size());
      return exchange_seconds(world, static_cast<int64_t>(ranks) * 1024);
    }();
    const double large = exchange_seconds(world, kExchanged);
    const double moved = (ranks - 1) / ranks * static_cast<double>(kExchanged);
    const double latency = mean(world, small, true) / (ranks - 1);
    const double seconds = mean(world, large, true) - latency * (ranks - 1);
    out.intra = {rounded(moved / std::max(seconds, 1e-6) / 1e9), rounded(latency * 1e6)};
    if (processors < world.size()) {
      out.processors = processors;
    }
  }
  out.inter = out.intra;
  return out;
}

Cluster measure_here(int ranks) {
  Context context = current_context();
  context.threads = std::max(1, context.num_threads() / ranks);
  auto world = thread_communicators(ranks);
  std::vector<Cluster> found(world.size());
  std::vector<std::exception_ptr> errors(world.size());
  std::vector<std::thread> running;
  for (size_t r = 0; r < world.size(); ++r) {
    running.emplace_back([&, r] {
      try {
        // As the processes of a run have.
        take_processors(static_cast<int>(r), ranks);
        Context own = context;
        own.allocator = std::make_shared<Allocator>();
        found[r] = measure_here(own, *world[r]);
      } catch (...) {
        errors[r] = std::current_exception();
      }
      world[r].reset();  // so that none waits for one that failed
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
  return found[0];
}

}  // namespace mstrain
