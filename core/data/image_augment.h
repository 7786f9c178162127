// What training does to single pictures, and to two of a batch. Every draw comes from the generator that is handed in.
#pragma once

#include <span>

#include "core/base/rng.h"
#include "core/data/image_config.h"
#include "core/io/images/image.h"

namespace mstrain {

// The region of which a picture of size * size is made: the whole, a random part, or the middle of it.
ImageRegion random_region(const AugmentConfig& config, int64_t height, int64_t width, int64_t size,
                          Rng& rng);
ImageRegion center_region(double share, int64_t height, int64_t width, int64_t size);

// Crop of a padded picture, flip, RandAugment.
void augment(Image& image, const AugmentConfig& config, Rng& rng);

// pixels[channels, size, size]: zeros in a rectangle of 2 % to 33 % of the area, by the configuration's chance.
void erase(std::span<float> pixels, int64_t size, const AugmentConfig& config, Rng& rng);

// Mixes the other picture into the first, both [channels, size, size]. Returns the share of the first.
float mix_pictures(std::span<float> pixels, std::span<const float> other, int64_t size,
                   const AugmentConfig& config, Rng& rng);

// A draw from Beta(alpha, alpha), alpha > 0.
double symmetric_beta(double alpha, Rng& rng);

}  // namespace mstrain
