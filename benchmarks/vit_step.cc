// One process of the race against PyTorch (vit_vs_pytorch.py): trains a ViT of a given size on random images.
//
//   vit_step LAYERS HEADS WIDTH SIZE PATCH BATCH CLASSES [threads]
//
// Talks as train_race.h says.
#include "benchmarks/run_main.h"
#include "benchmarks/train_race.h"
#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "suites/transformer/vit/model.h"

namespace mstrain {
namespace {

int run(int argc, char** argv) {
  const auto start = Clock::now();
  check(argc >= 8, "usage: vit_step LAYERS HEADS WIDTH SIZE PATCH BATCH CLASSES [threads]");
  const auto number = [&](int i) { return i < argc ? std::atoll(argv[i]) : 0; };
  vit::VitConfig config;
  config.num_layers = number(1);
  config.num_attention_heads = number(2);
  config.hidden_size = number(3);
  config.image_size = number(4);
  config.patch_size = number(5);
  config.num_classes = number(7);
  const int64_t rows = number(6);
  Context context;
  context.training = true;
  context.threads = static_cast<int>(number(8));
  const ContextScope scope(context);

  const vit::Vit model(config);
  Rng rng(99);
  const Shape shape{rows, config.num_channels, config.image_size, config.image_size};
  std::vector<float> pixels(static_cast<size_t>(shape.elements()));
  for (float& pixel : pixels) {
    pixel = static_cast<float>(rng.uniform(-1, 1));
  }
  std::vector<int32_t> labels(static_cast<size_t>(rows));
  for (int32_t& label : labels) {
    label = static_cast<int32_t>(rng.below(static_cast<uint64_t>(*config.num_classes.value)));
  }
  race_training(start, context, model.specs(),
                [&](const Params& p, const RaceBatch& b) {
                  const CrossEntropySums sums = model.losses(p, b.inputs, {b.targets});
                  return sums.loss / cast(sums.count, sums.loss.dtype());
                },
                {tensor<float>(pixels, shape), tensor<int32_t>(labels, {rows})}, {});
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
