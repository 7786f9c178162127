#include "core/data/image_loader.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/image_augment.h"
#include "core/data/image_resize.h"
#include "core/data/shuffle.h"

namespace mstrain {
namespace {

double of_channel(const std::vector<double>& values, int64_t channel) {
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

std::vector<std::array<float, 256>> values_of_bytes(const ImageView& view, int64_t channels) {
  std::vector<std::array<float, 256>> tables(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    const double std = of_channel(view.std, c);
    const double mean = of_channel(view.mean, c);
    check(std > 0 && std::isfinite(std) && std::isfinite(mean),
          "pixels cannot be scaled by mean {} and deviation {}", mean, std);
    for (size_t i = 0; i < 256; ++i) {
      tables[static_cast<size_t>(c)][i] =
          static_cast<float>((static_cast<double>(i) / 255 - mean) / std);
    }
  }
  return tables;
}

ImageBatch empty_batch(const ImageSet& images, const ImageView& view, int64_t rows) {
  ImageBatch batch{.batch = rows, .channels = images.channels(), .size = view.size};
  batch.pixels.resize(static_cast<size_t>(rows * batch.channels * view.size * view.size));
  batch.labels.resize(static_cast<size_t>(rows));
  if (view.augment.mixes()) {
    batch.others.resize(static_cast<size_t>(rows));
    batch.shares.resize(static_cast<size_t>(rows));
  }
  return batch;
}

std::span<float> row_of(ImageBatch& batch, int64_t row) {
  const int64_t count = batch.channels * batch.size * batch.size;
  return std::span(batch.pixels)
      .subspan(static_cast<size_t>(row * count), static_cast<size_t>(count));
}

}  // namespace

ImageLoader::ImageLoader(ImageSetPtr images, ImageView view, ImageOrder order, uint64_t seed,
                         const LoaderOptions& options, LoaderState state)
    : images_(std::move(images)),
      view_(std::move(view)),
      part_(options.batch),
      order_(order),
      seed_(seed),
      value_of_(values_of_bytes(view_, images_->channels())),
      slots_(empty_slots(options)),
      queue_([this](int64_t sample, int slot,
                    int64_t row) { fill(sample, slots_[static_cast<size_t>(slot)], row); },
             options, state) {}

// In place, one by one: a batch may be large.
std::vector<ImageLoader::Slot> ImageLoader::empty_slots(const LoaderOptions& options) const {
  std::vector<Slot> slots(static_cast<size_t>(BatchQueue::slots_for(options)));
  for (Slot& slot : slots) {
    slot.batch = empty_batch(*images_, view_, options.batch.rows());
  }
  return slots;
}

int64_t ImageLoader::batches_per_epoch() const {
  const int64_t rows = slots_[0].batch.batch;
  return (images_->size() + rows - 1) / rows;
}

// A row is mixed with the one after it, as that was read: as soon as it is there; the last one with the first. Where the one after it
// belongs to another rank, it is read for that alone.
void ImageLoader::fill(int64_t sample, Slot& slot, int64_t row) const {
  ImageBatch& batch = slot.batch;
  const auto pixels = row_of(batch, row);
  const auto label = [&](int64_t of) -> int32_t& { return batch.labels[static_cast<size_t>(of)]; };
  read(sample, pixels, label(row));
  if (!view_.augment.mixes()) {
    return;
  }
  const int64_t place = part_.sample(row);
  const bool follows = row > 0 && part_.sample(row - 1) + 1 == place;
  if (follows) {
    mix(sample - 1, batch, row - 1, pixels, label(row));
  } else if (part_.ranks == 1) {
    slot.next.assign(pixels.begin(), pixels.end());
    slot.next_label = label(row);
  }
  const bool goes_on = row + 1 < batch.batch && part_.sample(row + 1) == place + 1;
  if (goes_on) {
    return;
  }
  if (part_.ranks > 1) {
    slot.next.resize(pixels.size());
    read(place + 1 < part_.batch ? sample + 1 : sample - place, slot.next, slot.next_label);
  }
  mix(sample, batch, row, slot.next, slot.next_label);
}

void ImageLoader::mix(int64_t sample, ImageBatch& batch, int64_t row, std::span<const float> other,
                      int32_t label) const {
  const auto at = static_cast<size_t>(row);
  batch.others[at] = label;
  Rng rng(seed_, random_stream("data.mix", sample));
  batch.shares[at] = order_ == ImageOrder::kOnce
                         ? 1.0F
                         : mix_pictures(row_of(batch, row), other, view_.size, view_.augment, rng);
}

void ImageLoader::read(int64_t sample, std::span<float> pixels, int32_t& label) const {
  const int64_t count = images_->size();
  if (order_ == ImageOrder::kOnce && sample >= count) {
    std::fill(pixels.begin(), pixels.end(), 0.0F);
    label = kIgnoreTarget;
    return;
  }
  int64_t index = sample % count;
  if (order_ == ImageOrder::kShuffled) {
    const Permutation order(count, seed_, random_stream("data.images", 0),
                            static_cast<uint64_t>(sample / count));
    index = order(index);
  }
  label = images_->label(index);
  const bool trains = order_ != ImageOrder::kOnce;
  Rng rng(seed_, random_stream("data.augment", sample));
  const ChooseRegion choose = [&](int64_t height, int64_t width) {
    if (trains) {
      return random_region(view_.augment, height, width, view_.size, rng);
    }
    if (view_.center_crop) {
      return center_region(*view_.center_crop, height, width, view_.size);
    }
    return ImageRegion{0, 0, height, width, view_.size, view_.size};
  };
  Image image = resized(images_->read(index, choose), view_.size, view_.size);
  if (trains) {
    augment(image, view_.augment, rng);
  }
  const int64_t area = view_.size * view_.size;
  for (int64_t c = 0; c < image.channels; ++c) {
    const std::array<float, 256>& value_of = value_of_[static_cast<size_t>(c)];
    float* const plane = pixels.data() + c * area;
    const uint8_t* const bytes = image.pixels.data() + c;
    for (int64_t i = 0; i < area; ++i) {
      plane[i] = value_of[bytes[i * image.channels]];
    }
  }
  if (trains) {
    erase(pixels, view_.size, view_.augment, rng);
  }
}

PixelScale pixel_scale(const ImageSet& images, int64_t count) {
  const auto channels = static_cast<size_t>(images.channels());
  std::vector<uint64_t> sums(channels);
  std::vector<uint64_t> squares(channels);
  uint64_t pixels = 0;
  for (int64_t index = 0; index < std::min(count, images.size()); ++index) {
    const Image image = images.read(index);
    pixels += image.pixels.size() / channels;
    for (size_t i = 0; i < image.pixels.size(); ++i) {
      const uint64_t value = image.pixels[i];
      sums[i % channels] += value;
      squares[i % channels] += value * value;
    }
  }
  PixelScale scale;
  for (size_t c = 0; c < channels; ++c) {
    const auto n = static_cast<double>(std::max<uint64_t>(pixels, 1));
    const double mean = static_cast<double>(sums[c]) / n;
    const double variance = static_cast<double>(squares[c]) / n - mean * mean;
    scale.mean.push_back(mean / 255);
    scale.std.push_back(variance > 0 ? std::sqrt(variance) / 255 : 1);
  }
  return scale;
}

}  // namespace mstrain
