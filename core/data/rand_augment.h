// RandAugment (Cubuk et al. 2020): changes of a picture, drawn by chance, of one strength for all. Names, ranges and numbers
// are torchvision's (`transforms.v2.RandAugment` with 31 magnitudes, nearest neighbours, black where nothing is).
#pragma once

#include <span>

#include "core/base/rng.h"
#include "core/io/images/image.h"

namespace mstrain {

// Changes `image`, which keeps its size. `strength`: from 0 to 1; `sign`: 1 or -1, for those that know directions.
struct PictureChange {
  const char* name;
  void (*apply)(Image& image, double strength, double sign);
};
std::span<const PictureChange> picture_changes();

// `count` of them, one after the other, each drawn evenly.
void rand_augment(Image& image, int64_t count, double magnitude, Rng& rng);

}  // namespace mstrain
