#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "core/base/error.h"
#include "core/io/images/image.h"
#include "core/io/refuse.h"

namespace mstrain {
namespace {

// libjpeg leaves a failing call by longjmp: what is alive then belongs to this.
struct JpegReader {
  jpeg_error_mgr errors{};
  jpeg_decompress_struct jpeg{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";

  JpegReader() {
    jpeg.err = jpeg_std_error(&errors);
    jpeg.client_data = this;
    errors.error_exit = [](j_common_ptr common) { of(common).leave(common); };
    errors.emit_message = [](j_common_ptr common, int level) {
      // What is cut short is no picture; other oddities (stray bytes, odd markers) every reader puts up with.
      if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF) {
        of(common).leave(common);
      }
    };
    jpeg_create_decompress(&jpeg);
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  static JpegReader& of(j_common_ptr common) {
    return *static_cast<JpegReader*>(common->client_data);
  }
  [[noreturn]] void leave(j_common_ptr common) {
    (*common->err->format_message)(common, message);
    std::longjmp(jump, 1);
  }
  // Runs `f`, which must create nothing that needs to be destroyed. False where libjpeg failed. What a longjmp leaves
  // undefined is in the frame of setjmp, which therefore is one of its own.
  template <class F>
  [[gnu::noinline]] bool runs(const F& f) {
    if (setjmp(jump) != 0) {
      return false;
    }
    f();
    return true;
  }
};

[[noreturn]] void refuse_jpeg(const JpegReader& reader, const std::string& name) {
  refuse(name, fmt::format("damaged JPEG: {}", reader.message));
}

// Adobe's programs store how much of a colour is left: 255 is none of it.
void convert_cmyk(Image& image) {
  const int64_t area = image.height * image.width;
  std::vector<uint8_t> rgb(static_cast<size_t>(3 * area));
  for (int64_t i = 0; i < area; ++i) {
    const uint8_t* cmyk = image.pixels.data() + 4 * i;
    for (int64_t c = 0; c < 3; ++c) {
      rgb[static_cast<size_t>(3 * i + c)] = static_cast<uint8_t>((cmyk[c] * cmyk[3] + 127) / 255);
    }
  }
  image.channels = 3;
  image.pixels = std::move(rgb);
}

// The greatest of 1, 2, 4, 8 that leaves enough pixels.
int64_t reduction(const ImageRegion& region) {
  int64_t by = 1;
  while (by < 8 && region.least_height > 0 && region.height / (2 * by) >= region.least_height &&
         region.width / (2 * by) >= region.least_width) {
    by *= 2;
  }
  return by;
}

}  // namespace

Image image_files::decode_jpeg(std::span<const std::byte> file, const std::string& name,
                               const ChooseRegion& choose) {
  JpegReader reader;
  jpeg_decompress_struct& jpeg = reader.jpeg;
  const auto read_header = [&] {
    jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&jpeg, TRUE);
  };
  if (!reader.runs(read_header)) {
    refuse_jpeg(reader, name);
  }
  check_size(name, jpeg.image_height, jpeg.image_width);
  const bool is_cmyk = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = is_cmyk                                  ? JCS_CMYK
                         : jpeg.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE
                                                                  : JCS_RGB;
  const ImageRegion region =
      choose(static_cast<int64_t>(jpeg.image_height), static_cast<int64_t>(jpeg.image_width));
  check_region(region, jpeg.image_height, jpeg.image_width);
  const int64_t by = reduction(region);
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(by);
  const auto scaled = [by](int64_t x) { return static_cast<JDIMENSION>(x / by); };
  if (!reader.runs([&] { jpeg_start_decompress(&jpeg); })) {
    refuse_jpeg(reader, name);
  }
  const JDIMENSION top = std::min(scaled(region.top), jpeg.output_height - 1);
  const JDIMENSION left = std::min(scaled(region.left), jpeg.output_width - 1);
  const JDIMENSION height =
      std::clamp<JDIMENSION>(scaled(region.height), 1, jpeg.output_height - top);
  const JDIMENSION width =
      std::clamp<JDIMENSION>(scaled(region.width), 1, jpeg.output_width - left);
  // A block's outer colours look at its neighbours: columns are decoded with some beyond either side.
  constexpr JDIMENSION kMargin = 16;
  JDIMENSION decoded_left = left - std::min(left, kMargin);
  JDIMENSION decoded_width = std::min(left + width + kMargin, jpeg.output_width) - decoded_left;
  const auto limit = [&] {
    if (decoded_width < jpeg.output_width) {
      jpeg_crop_scanline(&jpeg, &decoded_left, &decoded_width);
    }
    if (top > 0) {
      jpeg_skip_scanlines(&jpeg, top);
    }
  };
  if (!reader.runs(limit)) {
    refuse_jpeg(reader, name);
  }
  Image image(height, width, jpeg.output_components);
  std::vector<uint8_t> line(static_cast<size_t>(decoded_width) * jpeg.output_components);
  uint8_t* const begin = line.data();
  const size_t skipped = static_cast<size_t>(left - decoded_left) * jpeg.output_components;
  const size_t bytes = static_cast<size_t>(width) * jpeg.output_components;
  const bool last_row_read = top + height == jpeg.output_height;
  const auto read = [&] {
    for (JDIMENSION y = 0; y < height; ++y) {
      JSAMPROW row = begin;
      jpeg_read_scanlines(&jpeg, &row, 1);
      std::memcpy(image.row(y), begin + skipped, bytes);
    }
    if (last_row_read) {
      jpeg_finish_decompress(&jpeg);
    }
  };
  if (!reader.runs(read)) {
    refuse_jpeg(reader, name);
  }
  if (is_cmyk) {
    convert_cmyk(image);
  }
  return image;
}

}  // namespace mstrain
