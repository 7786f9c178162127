#include "suites/transformer/vit/image_task.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/tensor/host.h"
#include "core/train/metrics.h"

namespace mstrain::vit {
namespace {

class ImageBatches final : public BatchStream {
 public:
  ImageBatches(ImageSetPtr images, const ImageView& view, ImageOrder order, uint64_t seed,
               const LoaderOptions& options, int64_t first)
      : loader_(std::move(images), view, order, seed, options, {first}) {}

  Tensors next() override {
    const ImageBatch& batch = loader_.next();
    Tensors out{tensor<float>(batch.pixels, {batch.batch, batch.channels, batch.size, batch.size}),
                tensor<int32_t>(batch.labels, {batch.batch})};
    if (!batch.others.empty()) {
      out.push_back(tensor<int32_t>(batch.others, {batch.batch}));
      out.push_back(tensor<float>(batch.shares, {batch.batch}));
    }
    return out;
  }
  int64_t samples() const override { return loader_.state().samples; }

 private:
  ImageLoader loader_;
};

// A row of the batch with its values brought back to bytes.
Image picture_of(const ImageBatch& batch, const ImageView& view, int64_t row) {
  Image image(batch.size, batch.size, batch.channels);
  const int64_t area = batch.size * batch.size;
  const auto of_channel = [](const std::vector<double>& values, int64_t c) {
    return static_cast<float>(values[values.size() == 1 ? 0 : static_cast<size_t>(c)]);
  };
  for (int64_t c = 0; c < batch.channels; ++c) {
    const float* const plane = batch.pixels.data() + (row * batch.channels + c) * area;
    for (int64_t i = 0; i < area; ++i) {
      const float value = plane[i] * of_channel(view.std, c) + of_channel(view.mean, c);
      image.pixels[static_cast<size_t>(i * batch.channels + c)] =
          static_cast<uint8_t>(std::clamp(std::nearbyint(255 * value), 0.0F, 255.0F));
    }
  }
  return image;
}

std::string label_of(const ImageBatch& batch, const std::vector<std::string>& names, size_t row) {
  const std::string& label = names[static_cast<size_t>(batch.labels[row])];
  if (batch.others.empty() || batch.shares[row] == 1) {
    return label;
  }
  return fmt::format("{:.2f} {} + {:.2f} {}", batch.shares[row], label, 1 - batch.shares[row],
                     names[static_cast<size_t>(batch.others[row])]);
}

ImageSetPtr first_images(const ImageSetPtr& images, int64_t count) {
  if (count >= images->size()) {
    return images;
  }
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return some_images(images, std::move(indices));
}

}  // namespace

TrainTask image_task(const Vit& model, const Network& network, int64_t size, bool mixes,
                     int batches_held) {
  TrainTask task;
  task.units.name = "image";
  task.parameters = network.specs();
  task.stored_shapes = stored_shapes(network, task.parameters);
  const int64_t channels = model.config().num_channels;
  task.batch_types = [channels, size, mixes](int64_t rows) {
    Types types{{Dtype::kF32, {rows, channels, size, size}}, {Dtype::kI32, {rows}}};
    if (mixes) {
      types.push_back({Dtype::kI32, {rows}});
      types.push_back({Dtype::kF32, {rows}});
    }
    return types;
  };
  task.sums = [model, mixes](const Params& params, std::span<const Tensor> batch) {
    const CrossEntropySums sums = model.losses(
        params, batch[0], mixes ? VitTargets{batch[1], batch[2], batch[3]} : VitTargets{batch[1]});
    return TaskSums{{sums.loss, sums.count}, {{sums.correct, sums.count}}};
  };
  const int64_t side = size / model.config().patch_size;
  task.positions_inside = side * side + 1;
  task.metrics = {kEvalAccuracy};
  task.batches_held = batches_held;
  return task;
}

void add_images(const ImageParts& images, const ImageView& view, bool shuffle, int workers,
                TrainData& out) {
  const ImageOrder order = shuffle ? ImageOrder::kShuffled : ImageOrder::kRepeated;
  out.training = [images, view, order, workers](uint64_t seed, const BatchPart& part,
                                                int64_t first) {
    const LoaderOptions options{.batch = part, .workers = workers};
    return std::make_unique<ImageBatches>(images.train, view, order, seed, options, first);
  };
  out.pictures = [images, view, order](uint64_t seed) {
    constexpr int64_t kMost = 24;
    constexpr int64_t kMostPixels = 3 << 19;  // of all, for the page's sake
    const int64_t rows = std::clamp<int64_t>(kMostPixels / (view.size * view.size), 1, kMost);
    ImageLoader loader(images.train, view, order, seed, {.batch = rows, .workers = 0});
    const ImageBatch& batch = loader.next();
    std::vector<SamplePicture> pictures;
    for (int64_t row = 0; row < rows; ++row) {
      pictures.push_back({encode_png(picture_of(batch, view, row)),
                          label_of(batch, images.train->names(), static_cast<size_t>(row))});
    }
    return pictures;
  };
  if (images.held_out != nullptr) {
    const auto first = [set = images.held_out, view, workers](const BatchPart& part,
                                                              int64_t samples) {
      const LoaderOptions options{.batch = part, .workers = workers};
      return std::make_unique<ImageBatches>(first_images(set, samples), view, ImageOrder::kOnce, 0,
                                            options, 0);
    };
    out.evaluation.push_back({"", first, images.held_out->size()});
  }
}

}  // namespace mstrain::vit
