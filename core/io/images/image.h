// Pictures of 8 bits a sample, and the files that hold them: PNG and JPEG, told apart by their first bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;  // [height, width, channels]

  Image() = default;
  Image(int64_t h, int64_t w, int64_t c)
      : height(h), width(w), channels(c), pixels(static_cast<size_t>(h * w * c)) {}
  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * channels; }
  bool operator==(const Image&) const = default;
};

// A part of a picture; and how many pixels it is going to have.
struct ImageRegion {
  int64_t top = 0, left = 0, height = 0, width = 0;
  int64_t least_height = 0, least_width = 0;  // 0: all that there are
};
// What is wanted of a picture of that size; within it.
using ChooseRegion = std::function<ImageRegion(int64_t height, int64_t width)>;
ImageRegion whole_image(int64_t height, int64_t width);

// What `choose` picks of the picture in `file`, with 1 channel (grey) or 3 (red, green, blue). Transparency is left out;
// palettes, 1 to 4 bits and CMYK are converted, 16 bits rounded. Of a JPEG only what is needed is decoded, at 1/2, 1/4 or 1/8
// of its resolution where at least `least_height` x `least_width` pixels remain.
// Throws IoError beginning with `name` for what is neither, is damaged or cut short, or has more than 2^27 pixels.
Image decode_image(std::span<const std::byte> file, const std::string& name,
                   const ChooseRegion& choose = whole_image);

// The picture as a PNG file.
std::string encode_png(const Image& image);

// As grey or as colours; a picture that is so already stays as it is. Grey is 0.299 red + 0.587 green + 0.114 blue.
Image with_channels(Image image, int64_t channels);

namespace image_files {  // the parts of decode_image()
inline constexpr int64_t kMostPixels = int64_t{1} << 27;
void check_size(const std::string& name, uint64_t height, uint64_t width);
void check_region(const ImageRegion& region, int64_t height, int64_t width);
Image decode_png(std::span<const std::byte> file, const std::string& name,
                 const ChooseRegion& choose);
Image decode_jpeg(std::span<const std::byte> file, const std::string& name,
                  const ChooseRegion& choose);
}  // namespace image_files

}  // namespace mstrain
