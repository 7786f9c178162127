// Moving pictures: GIF89a by giflib.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/io/images/image.h"

namespace mstrain {

// `frames` (at least one, of equal size, 3 channels) shown one after the other for `centiseconds` each (browsers show
// less than 2 as 10), over and over. All frames share the 256 colours that are most common in them; others become the nearest of
// these. Of a frame only the rectangle that changed is stored. Throws Error for frames that are not alike.
std::string encode_gif(std::span<const Image> frames, int centiseconds);

}  // namespace mstrain
