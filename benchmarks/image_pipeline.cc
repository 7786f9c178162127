// What one processor prepares of images: JPEG files, a random resized crop to 224, flip, RandAugment, normalisation, in one
// thread (image_pipeline_vs_torchvision.py races it against torchvision).
//
//   image_pipeline FOLDER      a folder of one folder of JPEG files for each class
//
// For every line "N" on standard input prepares N images and prints a JSON line with the seconds of one.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "benchmarks/run_main.h"
#include "core/base/error.h"
#include "core/data/image_loader.h"

namespace mstrain {
namespace {

int run(int argc, char** argv) {
  check(argc == 2, "usage: image_pipeline FOLDER");
  ImageView view{.size = 224, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  view.augment.crop = CropType::kResized;
  view.augment.flip = 0.5;
  view.augment.rand_augment = RandAugmentConfig{};
  const ImageSetPtr images = open_images(real_files(), argv[1], 3).train;
  ImageLoader loader(images, view, ImageOrder::kShuffled, 1, {.batch = 1, .workers = 0});
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    const int64_t count = std::atoll(line);
    const auto begin = std::chrono::steady_clock::now();
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += loader.next().pixels[0];
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    std::printf("{\"image_seconds\": %.8f, \"sum\": %.3f}\n",
                passed.count() / static_cast<double>(count), sum);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace mstrain

int main(int argc, char** argv) { return mstrain::run_main(mstrain::run, argc, argv); }
