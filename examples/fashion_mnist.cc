// Trains a small network on Fashion-MNIST (Xiao, Rasul & Vollgraf 2017; Debian package dataset-fashion-mnist) and ends
// with status 1 below 88 % of the test images.
//
//   fashion_mnist [FOLDER]
#include <fmt/core.h>

#include <chrono>
#include <exception>
#include <memory>

#include "core/mstrain.h"

using namespace mstrain;

namespace {

constexpr int64_t kBatch = 200;
constexpr int64_t kEpochs = 8;
constexpr uint64_t kSeed = 1;

struct Batch {
  Tensor images_bchw, labels_b;
  template <class V>
  void fields(V& v) {
    v("images", images_bchw);
    v("labels", labels_b);
  }
};

Batch to_tensors(const ImageBatch& batch) {
  return {tensor<float>(batch.pixels, {batch.batch, batch.channels, batch.size, batch.size}),
          tensor<int32_t>(batch.labels, {batch.batch})};
}

// The model: parameters are declared where they are used.
Tensor logits(const Params& p, const Tensor& images_bchw) {
  return mlp(p / "mlp", flatten(images_bchw, 1), {256, 128, 10}, Activation::kRelu);
}

Tensor loss(const Params& p, const Batch& batch) {
  return cross_entropy(logits(p, batch.images_bchw), batch.labels_b);
}

Tensor count_right(const Params& p, const Batch& batch) {
  const Tensor right = equal(argmax(logits(p, batch.images_bchw)), batch.labels_b);
  return sum(cast(right, Dtype::kF32));
}

double accuracy(const auto& count, const Params& params, const ImageSetPtr& images,
                const ImageView& view) {
  ImageLoader loader(images, view, ImageOrder::kOnce, kSeed, {.batch = kBatch});
  double right = 0;
  for (int64_t i = loader.batches_per_epoch(); i > 0; --i) {
    right += item(count(params, to_tensors(loader.next())));
  }
  return right / static_cast<double>(images->size());
}

int run(const std::string& folder) {
  const auto start = std::chrono::steady_clock::now();
  const auto [train, test] = open_images(real_files(), folder, /*channels=*/1);
  const auto [mean, std] = pixel_scale(*train, train->size());
  const ImageView view{.size = 28, .mean = mean, .std = std};

  const auto specs = declare_params([&](const Params& p) {
    logits(p, zeros({Dtype::kF32, {1, 1, view.size, view.size}}));
  });
  const Optimizer optimizer({.type = OptimizerType::kAdamW, .weight_decay = 0.01}, specs);
  Params params = init_params(specs, kSeed);
  OptimizerState state = optimizer.init(params);

  // One training step as one compiled program, which writes new parameters and moments over the old ones.
  const auto step = jit(
      [&](Params p, OptimizerState s, const Batch& batch, const Tensor& lr) {
        const auto [value, grads] = value_and_grad(loss)(p, batch);
        auto [next, next_state] =
            optimizer.update(std::move(p), grads, std::move(s), lr, scalar(1));
        return std::tuple(std::move(next), std::move(next_state), value);
      },
      {.donate = {0, 1}});
  const auto count = jit(count_right);

  ImageLoader loader(train, view, ImageOrder::kShuffled, kSeed, {.batch = kBatch});
  const int64_t epoch = loader.batches_per_epoch();
  const ScheduleConfig schedule{.warmup_steps = epoch / 4, .total_steps = kEpochs * epoch};
  Tensor last_loss;
  for (int64_t i = 0; i < schedule.total_steps; ++i) {
    const Tensor lr = scalar(learning_rate(schedule, 1e-3, i));
    std::tie(params, state, last_loss) =
        step(std::move(params), std::move(state), to_tensors(loader.next()), lr);
    if ((i + 1) % epoch == 0) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      fmt::print("epoch {:2}   loss {:.3f}   test accuracy {:.2f} %   {:.1f} s\n", (i + 1) / epoch,
                 item(last_loss), 100 * accuracy(count, params, test, view), passed.count());
    }
  }

  const double reached = accuracy(count, params, test, view);
  fmt::print("{:.2f} % of {} test images\n", 100 * reached, test->size());
  return reached >= 0.88 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist");
  } catch (const std::exception& error) {
    fmt::print(stderr, "fashion_mnist: {}\n", error.what());
    return 1;
  }
}
