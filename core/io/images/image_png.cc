#include <png.h>

#include <csetjmp>
#include <cstring>

#include "core/base/error.h"
#include "core/io/images/image.h"
#include "core/io/refuse.h"

namespace mstrain {
namespace {

// libpng leaves a failing call by longjmp: what is alive then belongs to this, and the message outlives the jump.
struct PngReader {
  std::span<const std::byte> file;
  size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[256] = "";

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message, text, sizeof(self->message) - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, size_t count) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self->file.size() - self->at) {
      png_error(png, "cut short");
    }
    std::memcpy(out, self->file.data() + self->at, count);
    self->at += count;
  }
};

// Runs `f`, which must create nothing that needs to be destroyed. False where libpng failed. What a longjmp leaves undefined is
// in the frame of setjmp, which therefore is one of its own.
template <class F>
[[gnu::noinline]] bool runs(png_structp png, const F& f) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  f();
  return true;
}

[[noreturn]] void refuse_png(const PngReader& reader, const std::string& name) {
  refuse(name, reader.at, fmt::format("damaged PNG: {}", reader.message));
}

Image cut(Image whole, const ImageRegion& region) {
  if (region.height == whole.height && region.width == whole.width) {
    return whole;
  }
  Image out(region.height, region.width, whole.channels);
  for (int64_t y = 0; y < region.height; ++y) {
    std::memcpy(out.row(y), whole.row(region.top + y) + region.left * whole.channels,
                static_cast<size_t>(region.width * whole.channels));
  }
  return out;
}

}  // namespace

Image image_files::decode_png(std::span<const std::byte> file, const std::string& name,
                              const ChooseRegion& choose) {
  PngReader reader{.file = file};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, PngReader::on_error,
                                      PngReader::on_warning);
  check(reader.png != nullptr, "libpng cannot start");
  const auto set_up = [&] {
    reader.info = png_create_info_struct(reader.png);
    png_set_read_fn(reader.png, &reader, PngReader::on_read);
    png_set_user_limits(reader.png, kMostPixels, kMostPixels);
    png_set_chunk_malloc_max(reader.png, 1 << 24);
    png_read_info(reader.png, reader.info);
    png_set_expand(reader.png);  // palettes and few bits to 8, transparent colours to alpha
    png_set_scale_16(reader.png);
    png_set_strip_alpha(reader.png);
    png_set_interlace_handling(reader.png);
    png_read_update_info(reader.png, reader.info);
  };
  if (!runs(reader.png, set_up)) {
    refuse_png(reader, name);
  }
  const auto height = png_get_image_height(reader.png, reader.info);
  const auto width = png_get_image_width(reader.png, reader.info);
  check_size(name, height, width);
  // Nothing compresses by more than 1032; what cannot be there gets no memory.
  const uint64_t least_bits = uint64_t{height} * width;
  if (least_bits / 8 / 1032 > file.size()) {
    refuse(name,
           fmt::format("a picture of {} x {} pixels in {} bytes", height, width, file.size()));
  }
  Image image(height, width, png_get_channels(reader.png, reader.info));
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < image.height; ++y) {
    rows.push_back(image.row(y));
  }
  const auto read = [&] {
    png_read_image(reader.png, rows.data());
    png_read_end(reader.png, nullptr);
  };
  if (!runs(reader.png, read)) {
    refuse_png(reader, name);
  }
  const ImageRegion region = choose(image.height, image.width);
  check_region(region, image.height, image.width);
  return cut(std::move(image), region);
}

std::string encode_png(const Image& image) {
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  head.width = static_cast<png_uint_32>(image.width);
  head.height = static_cast<png_uint_32>(image.height);
  head.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  check(image.channels == 1 || image.channels == 3, "a PNG has 1 or 3 channels here, not {}",
        image.channels);
  png_alloc_size_t bytes = 0;
  std::string out;
  const auto write = [&](void* to) {
    return png_image_write_to_memory(&head, to, &bytes, 0, image.pixels.data(), 0, nullptr) != 0;
  };
  bool written = write(nullptr);
  out.resize(bytes);
  written = written && write(out.data());
  check(written, "libpng: {}", head.message);
  out.resize(bytes);
  return out;
}

}  // namespace mstrain
