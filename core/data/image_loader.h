// Grey images with labels (MNIST and its kin), held in memory as bytes and handed out as floats.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/batch_queue.h"
#include "core/data/windows.h"
#include "core/io/idx.h"

namespace mstrain {

// A pixel p becomes (p / 255 - mean) / deviation.
struct PixelScale {
  float mean = 0;
  float deviation = 1;
};

// Mean and standard deviation over all pixels of `data`; a deviation of 1 where all are equal.
PixelScale pixel_scale(const LabeledImages& data);

// Immutable; any thread may read.
class ImageDataset {
 public:
  // Images u8 [n, height, width] with n >= 1, labels u8 [n]; Error otherwise.
  explicit ImageDataset(LabeledImages data, PixelScale scale = {});

  int64_t size() const { return data_.images.shape[0]; }
  int64_t height() const { return data_.images.shape[1]; }
  int64_t width() const { return data_.images.shape[2]; }

  // `pixels` has height() * width() elements. Returns the label.
  int32_t read(int64_t index, std::span<float> pixels) const;

 private:
  LabeledImages data_;
  std::array<float, 256> value_of_;
};

// `<folder>/<part>-images-idx3-ubyte` and `-labels-idx1-ubyte`, each plain or with `.gz`; `part` is
// "train" or "t10k". Ten classes. Throws IoError from core/io/idx.h, or naming the file that is
// missing.
LabeledImages open_mnist(FileSystem& files, const std::string& folder, const std::string& part);

struct ImageBatch {
  int64_t batch = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<float> images;    // [batch, height, width]
  std::vector<int32_t> labels;  // [batch]; kIgnoreTarget for a row after the last image
};

enum class ImageOrder {
  kShuffled,  // pass after pass without end, each in an order of its own
  kOnce,      // from first to last; rows after that are zeros with label kIgnoreTarget
};

// The same batches whatever the number of workers; LoaderState is exact. One thread at a time may
// use a loader.
class ImageLoader {
 public:
  ImageLoader(std::shared_ptr<const ImageDataset> images, ImageOrder order, uint64_t seed,
              const LoaderOptions& options, LoaderState state = {});

  // Valid until the next call. Errors: see BatchQueue::next.
  const ImageBatch& next() { return slots_[queue_.next()]; }

  int64_t batches_per_epoch() const;  // the last one may hold rows of the next pass, or padding
  LoaderState state() const { return queue_.state(); }
  void restore(LoaderState state) { queue_.restore(state); }

 private:
  void fill(int64_t sample, ImageBatch& batch, int64_t row) const;

  std::shared_ptr<const ImageDataset> images_;
  ImageOrder order_;
  uint64_t seed_;
  std::vector<ImageBatch> slots_;
  BatchQueue queue_;  // last: its threads write into the slots
};

}  // namespace mstrain
