#include "core/io/images/image.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/io/refuse.h"

namespace mstrain {

ImageRegion whole_image(int64_t height, int64_t width) { return {0, 0, height, width}; }

namespace image_files {

void check_size(const std::string& name, uint64_t height, uint64_t width) {
  if (height == 0 || width == 0 || height > kMostPixels / width) {
    refuse(name, fmt::format("a picture of {} x {} pixels; at least 1 and at most 2^27 are read",
                             height, width));
  }
}

void check_region(const ImageRegion& region, int64_t height, int64_t width) {
  check(region.top >= 0 && region.left >= 0 && region.height > 0 && region.width > 0 &&
            region.top <= height - region.height && region.left <= width - region.width,
        "a region of {} x {} at {}, {} of a picture of {} x {}", region.height, region.width,
        region.top, region.left, height, width);
}

}  // namespace image_files

Image decode_image(std::span<const std::byte> file, const std::string& name,
                   const ChooseRegion& choose) {
  const auto begins_with = [&](std::string_view bytes) { return as_text(file).starts_with(bytes); };
  if (begins_with("\x89PNG\r\n\x1a\n")) {
    return image_files::decode_png(file, name, choose);
  }
  if (begins_with("\xff\xd8\xff")) {
    return image_files::decode_jpeg(file, name, choose);
  }
  refuse(name, 0, file.empty() ? "the file is empty" : "neither a PNG nor a JPEG file");
}

Image with_channels(Image image, int64_t channels) {
  if (image.channels == channels) {
    return image;
  }
  check((channels == 1 || channels == 3) && (image.channels == 1 || image.channels == 3),
        "a picture of {} channels cannot become one of {}", image.channels, channels);
  Image out(image.height, image.width, channels);
  const int64_t area = image.height * image.width;
  const uint8_t* from = image.pixels.data();
  uint8_t* to = out.pixels.data();
  for (int64_t i = 0; i < area; ++i) {
    if (channels == 3) {
      to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = from[i];
    } else {  // in units of 2^-16
      const uint32_t grey =
          19595U * from[3 * i] + 38470U * from[3 * i + 1] + 7471U * from[3 * i + 2];
      to[i] = static_cast<uint8_t>((grey + 0x8000U) >> 16);
    }
  }
  return out;
}

}  // namespace mstrain
