#include "core/forecast/measured_layers.h"

#include <algorithm>
#include <array>

#include "core/base/clock.h"
#include "core/ir/backend.h"
#include "core/nn/layers.h"
#include "core/ops/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/jit.h"
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

// By least squares of what the products' times would be off by, each alike.
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

}  // namespace

AttentionTime split_attention(const MeasuredAttention& larger, const MeasuredAttention& smaller,
                              double least) {
  const double told = (smaller.seconds - larger.seconds) /
                      (smaller.scores_an_operation - larger.scores_an_operation);
  const double most = std::max(0.0, larger.seconds - least) / larger.scores_an_operation;
  const double of_score = std::clamp(told, 0.0, most);
  return {larger.seconds - of_score * larger.scores_an_operation, of_score};
}

LayerTimes measure_layers(Communicator& world, bool works, double peak) {
  std::vector<MeasuredLayers> sizes;
  if (works) {
    for (const LayerSize& size : kLayers) {
      sizes.emplace_back(size);
    }
  }
  const double waits = measure_in_turns(world, sizes);
  if (!works) {
    return {};
  }
  std::vector<ProductTime> times;
  for (const MeasuredLayers& layers : sizes) {
    layers.add_products(&times);
  }
  const LayerRates larger = sizes[0].rates(), smaller = sizes[1].rates();
  LayerTimes out{.attention = split_attention(
                     {1 / larger.attention, kLayers[0].scores_an_operation()},
                     {1 / smaller.attention, kLayers[1].scores_an_operation()}, 1 / peak),
                 .products = split(times),
                 .memory = larger.memory / waits,
                 .launch = larger.launch * waits};
  out.attention.of_operation *= waits;
  out.attention.of_score *= waits;
  out.products.sums /= waits;
  if (out.products.operands) {
    *out.products.operands /= waits;
  }
  return out;
}

}  // namespace mstrain
