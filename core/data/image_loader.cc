#include "core/data/image_loader.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/shuffle.h"

namespace mstrain {
namespace {

std::vector<ImageBatch> make_image_slots(const ImageDataset& images, const LoaderOptions& options) {
  const int slots = BatchQueue::slots_for(options);
  ImageBatch empty{options.batch, images.height(), images.width(), {}, {}};
  empty.images.resize(options.batch * images.height() * images.width());
  empty.labels.resize(options.batch);
  return std::vector<ImageBatch>(slots, empty);
}

std::string plain_or_zipped(FileSystem& files, const std::string& path) {
  for (const char* ending : {"", ".gz"}) {
    if (files.exists(path + ending)) {
      return path + ending;
    }
  }
  throw IoError(fmt::format("{}: no such file, with .gz or without", path), ENOENT);
}

}  // namespace

PixelScale pixel_scale(const LabeledImages& data) {
  uint64_t sum = 0;
  uint64_t squares = 0;
  for (const std::byte pixel : data.images.data) {
    const auto value = std::to_integer<uint64_t>(pixel);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(std::max<size_t>(1, data.images.data.size()));
  const double mean = static_cast<double>(sum) / count;
  const double variance = static_cast<double>(squares) / count - mean * mean;
  return {static_cast<float>(mean / 255),
          variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F};
}

ImageDataset::ImageDataset(LabeledImages data, PixelScale scale) : data_(std::move(data)) {
  const IdxArray& images = data_.images;
  const IdxArray& labels = data_.labels;
  check(images.dtype == Dtype::kU8 && images.shape.size() == 3 && images.shape[0] >= 1,
        "a set of images must be u8 [n, height, width] with at least one image");
  check(labels.dtype == Dtype::kU8 && labels.shape == std::vector<int64_t>{images.shape[0]},
        "{} images need u8 labels of the same number", images.shape[0]);
  check(scale.deviation > 0 && std::isfinite(scale.deviation) && std::isfinite(scale.mean),
        "pixels cannot be scaled by mean {} and deviation {}", scale.mean, scale.deviation);
  for (size_t i = 0; i < value_of_.size(); ++i) {
    value_of_[i] = (static_cast<float>(i) / 255.0F - scale.mean) / scale.deviation;
  }
}

int32_t ImageDataset::read(int64_t index, std::span<float> pixels) const {
  check(index >= 0 && index < size(), "there is no image {} among {}", index, size());
  const int64_t area = height() * width();
  check(static_cast<int64_t>(pixels.size()) == area, "an image has {} pixels, not {}", area,
        pixels.size());
  const auto first = data_.images.data.begin() + index * area;
  std::transform(first, first + area, pixels.begin(),
                 [&](std::byte pixel) { return value_of_[std::to_integer<size_t>(pixel)]; });
  return std::to_integer<int32_t>(data_.labels.data[index]);
}

LabeledImages open_mnist(FileSystem& files, const std::string& folder, const std::string& part) {
  return read_labeled_images(files,
                             plain_or_zipped(files, join_path(folder, part + "-images-idx3-ubyte")),
                             plain_or_zipped(files, join_path(folder, part + "-labels-idx1-ubyte")),
                             /*classes=*/10);
}

ImageLoader::ImageLoader(std::shared_ptr<const ImageDataset> images, ImageOrder order,
                         uint64_t seed, const LoaderOptions& options, LoaderState state)
    : images_(std::move(images)),
      order_(order),
      seed_(seed),
      slots_(make_image_slots(*images_, options)),
      queue_([this](int64_t sample, int slot, int64_t row) { fill(sample, slots_[slot], row); },
             options, state) {}

int64_t ImageLoader::batches_per_epoch() const {
  return (images_->size() + slots_[0].batch - 1) / slots_[0].batch;
}

void ImageLoader::fill(int64_t sample, ImageBatch& batch, int64_t row) const {
  const int64_t size = images_->size();
  const int64_t area = batch.height * batch.width;
  const auto pixels = std::span(batch.images).subspan(row * area, area);
  if (order_ == ImageOrder::kShuffled) {
    const Permutation order(size, seed_, random_stream("data.images", 0), sample / size);
    batch.labels[row] = images_->read(order(sample % size), pixels);
  } else if (sample < size) {
    batch.labels[row] = images_->read(sample, pixels);
  } else {
    std::fill(pixels.begin(), pixels.end(), 0.0F);
    batch.labels[row] = kIgnoreTarget;
  }
}

}  // namespace mstrain
