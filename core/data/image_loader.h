// Batches of pictures with labels, read and changed ahead of their use in threads.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/data/batch_queue.h"
#include "core/data/image_config.h"
#include "core/data/image_set.h"
#include "core/data/windows.h"

namespace mstrain {

struct ImageView {
  int64_t size = 0;                        // height and width
  std::optional<double> center_crop = {};  // see ImageDataConfig
  std::vector<double> mean{0};             // one, or one for each channel
  std::vector<double> std{1};
  AugmentConfig augment = {};
};

struct ImageBatch {
  int64_t batch = 0, channels = 0, size = 0;
  std::vector<float> pixels;    // [batch, channels, size, size]: (value / 255 - mean) / std
  std::vector<int32_t> labels;  // [batch]; kIgnoreTarget for a row after the last image
  // Where images are mixed: [batch] each, the label of the image that is mixed in, and the share of the first.
  std::vector<int32_t> others;
  std::vector<float> shares;
};

enum class ImageOrder {
  kShuffled,  // pass after pass without end, each in an order of its own
  kRepeated,  // pass after pass, each from first to last
  kOnce,      // from first to last; rows after that are zeros with label kIgnoreTarget
};

// Sample i is a function of the images, the view, the seed and i; mixed, also of the samples beside it in its batch. So
// batches are the same whatever the number of workers; LoaderState is exact. One thread at a time may use a loader.
class ImageLoader {
 public:
  ImageLoader(ImageSetPtr images, ImageView view, ImageOrder order, uint64_t seed,
              const LoaderOptions& options, LoaderState state = {});

  // Valid until the next call. Errors: see BatchQueue::next.
  const ImageBatch& next() { return slots_[static_cast<size_t>(queue_.next())].batch; }

  int64_t batches_per_epoch() const;  // the last one may hold rows of the next pass, or padding
  LoaderState state() const { return queue_.state(); }
  void restore(LoaderState state) { queue_.restore(state); }

 private:
  struct Slot {
    ImageBatch batch;
    std::vector<float>
        next;  // the picture that the last row is mixed with, or the last of a run of rows
    int32_t next_label = 0;
  };

  std::vector<Slot> empty_slots(const LoaderOptions& options) const;
  void fill(int64_t sample, Slot& slot, int64_t row) const;
  void read(int64_t sample, std::span<float> pixels, int32_t& label) const;
  // Mixes the row with that of `other`.
  void mix(int64_t sample, ImageBatch& batch, int64_t row, std::span<const float> other,
           int32_t label) const;

  ImageSetPtr images_;
  ImageView view_;
  BatchPart part_;
  ImageOrder order_;
  uint64_t seed_;
  std::vector<std::array<float, 256>> value_of_;  // of a byte, by channel
  std::vector<Slot> slots_;
  BatchQueue queue_;  // last: its threads write into the slots
};

// Mean and standard deviation of each channel of the first `count` images, of values from 0 to 1; a deviation of 1 where all
// are equal.
struct PixelScale {
  std::vector<double> mean, std;
};
PixelScale pixel_scale(const ImageSet& images, int64_t count);

}  // namespace mstrain
