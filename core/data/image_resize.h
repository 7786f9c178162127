// Pictures of another size.
#pragma once

#include "core/io/images/image.h"

namespace mstrain {

// Every new pixel is the mean of the old ones under a triangle of one new pixel's half width, at least an old one's (bilinear
// interpolation; where the picture becomes smaller, with antialiasing, as PIL and torchvision have it). Rounded to the nearest.
Image resized(const Image& image, int64_t height, int64_t width);

// Left and right changed.
void flip_horizontally(Image& image);

}  // namespace mstrain
