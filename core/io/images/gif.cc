#include "core/io/images/gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace mstrain {
namespace {

constexpr size_t kColours = 256;

uint32_t colour_at(const Image& image, int64_t pixel) {
  const uint8_t* p = image.pixels.data() + pixel * 3;
  return static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 8 | p[2];
}

int distance(uint32_t a, uint32_t b) {
  int sum = 0;
  for (int shift = 0; shift < 24; shift += 8) {
    const int d = static_cast<int>(a >> shift & 255U) - static_cast<int>(b >> shift & 255U);
    sum += d * d;
  }
  return sum;
}

// The colours of all frames, and which of the palette stands for each.
class Palette {
 public:
  explicit Palette(std::span<const Image> frames) {
    std::unordered_map<uint32_t, int64_t> counts;
    for (const Image& frame : frames) {
      for (int64_t i = 0; i < frame.height * frame.width; ++i) {
        ++counts[colour_at(frame, i)];
      }
    }
    std::vector<std::pair<int64_t, uint32_t>> ranked;  // most common first, then by colour
    for (const auto& [colour, count] : counts) {
      ranked.emplace_back(-count, colour);
    }
    std::sort(ranked.begin(), ranked.end());
    for (size_t i = 0; i < ranked.size(); ++i) {
      const uint32_t colour = ranked[i].second;
      if (i < kColours) {
        colours_.push_back(colour);
        index_[colour] = static_cast<GifByteType>(i);
      } else {
        const auto nearest = std::min_element(
            colours_.begin(), colours_.end(),
            [&](uint32_t a, uint32_t b) { return distance(a, colour) < distance(b, colour); });
        index_[colour] = static_cast<GifByteType>(nearest - colours_.begin());
      }
    }
  }
  GifByteType index(uint32_t colour) const { return index_.at(colour); }
  const std::vector<uint32_t>& colours() const { return colours_; }

 private:
  std::vector<uint32_t> colours_;
  std::unordered_map<uint32_t, GifByteType> index_;
};

struct Rectangle {
  int64_t left, top, right, bottom;  // right and bottom excluded
};

// Where two frames differ; one pixel where they are the same.
Rectangle changed(const Image& before, const Image& now) {
  Rectangle area{now.width, now.height, 0, 0};
  for (int64_t y = 0; y < now.height; ++y) {
    for (int64_t x = 0; x < now.width; ++x) {
      if (!std::equal(now.row(y) + x * 3, now.row(y) + x * 3 + 3, before.row(y) + x * 3)) {
        area = {std::min(area.left, x), std::min(area.top, y), std::max(area.right, x + 1),
                std::max(area.bottom, y + 1)};
      }
    }
  }
  return area.right > 0 ? area : Rectangle{0, 0, 1, 1};
}

class GifWriter {
 public:
  GifWriter() {
    int error = 0;
    gif_ = EGifOpen(&out_, append, &error);
    check(gif_ != nullptr, "giflib cannot start: {}", GifErrorString(error));
    EGifSetGifVersion(gif_, true);  // 89a: it has times and repetition
  }
  ~GifWriter() {
    int error = 0;
    if (gif_ != nullptr) {
      EGifCloseFile(gif_, &error);
    }
  }
  GifWriter(const GifWriter&) = delete;
  GifWriter& operator=(const GifWriter&) = delete;

  void begin(int64_t width, int64_t height, const Palette& palette) {
    int bits = 1;
    while ((size_t{1} << bits) < palette.colours().size()) {
      ++bits;
    }
    const std::unique_ptr<ColorMapObject, decltype(&GifFreeMapObject)> map(
        GifMakeMapObject(1 << bits, nullptr), GifFreeMapObject);
    check(map != nullptr, "giflib: out of memory");
    for (size_t i = 0; i < palette.colours().size(); ++i) {
      const uint32_t colour = palette.colours()[i];
      map->Colors[i] = {static_cast<GifByteType>(colour >> 16),
                        static_cast<GifByteType>(colour >> 8 & 255U),
                        static_cast<GifByteType>(colour & 255U)};
    }
    expect(EGifPutScreenDesc(gif_, static_cast<int>(width), static_cast<int>(height), 8, 0,
                             map.get()));
    const GifByteType forever[3] = {1, 0, 0};
    expect(EGifPutExtensionLeader(gif_, APPLICATION_EXT_FUNC_CODE));
    expect(EGifPutExtensionBlock(gif_, 11, "NETSCAPE2.0"));
    expect(EGifPutExtensionBlock(gif_, 3, forever));
    expect(EGifPutExtensionTrailer(gif_));
  }

  void put(const Image& frame, const Rectangle& area, const Palette& palette, int centiseconds) {
    const GraphicsControlBlock control{.DisposalMode = DISPOSE_DO_NOT,
                                       .UserInputFlag = false,
                                       .DelayTime = centiseconds,
                                       .TransparentColor = NO_TRANSPARENT_COLOR};
    GifByteType packed[4];
    const auto size = EGifGCBToExtension(&control, packed);
    expect(EGifPutExtension(gif_, GRAPHICS_EXT_FUNC_CODE, static_cast<int>(size), packed));
    const auto width = static_cast<int>(area.right - area.left);
    expect(EGifPutImageDesc(gif_, static_cast<int>(area.left), static_cast<int>(area.top), width,
                            static_cast<int>(area.bottom - area.top), false, nullptr));
    std::vector<GifPixelType> row(static_cast<size_t>(width));
    for (int64_t y = area.top; y < area.bottom; ++y) {
      for (int64_t x = area.left; x < area.right; ++x) {
        row[static_cast<size_t>(x - area.left)] =
            palette.index(colour_at(frame, y * frame.width + x));
      }
      expect(EGifPutLine(gif_, row.data(), width));
    }
  }

  std::string finish() {
    int error = 0;
    GifFileType* gif = std::exchange(gif_, nullptr);
    check(EGifCloseFile(gif, &error) == GIF_OK, "giflib: {}", GifErrorString(error));
    return std::move(out_);
  }

 private:
  static int append(GifFileType* gif, const GifByteType* bytes, int count) {
    static_cast<std::string*>(gif->UserData)
        ->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
    return count;
  }
  void expect(int status) const {
    check(status == GIF_OK, "giflib: {}", GifErrorString(gif_->Error));
  }

  std::string out_;
  GifFileType* gif_ = nullptr;
};

}  // namespace

std::string encode_gif(std::span<const Image> frames, int centiseconds) {
  check(!frames.empty(), "encode_gif: no frames");
  const Image& first = frames.front();
  for (const Image& frame : frames) {
    check(frame.channels == 3 && frame.width == first.width && frame.height == first.height &&
              frame.width > 0 && frame.width < 1 << 16 && frame.height > 0 &&
              frame.height < 1 << 16,
          "encode_gif: a frame of {} x {} pixels with {} channels after one of {} x {}; expected "
          "equal "
          "sizes below 65536 and 3 channels",
          frame.width, frame.height, frame.channels, first.width, first.height);
  }
  const Palette palette(frames);
  GifWriter writer;
  writer.begin(first.width, first.height, palette);
  const Rectangle all{0, 0, first.width, first.height};
  for (size_t i = 0; i < frames.size(); ++i) {
    writer.put(frames[i], i == 0 ? all : changed(frames[i - 1], frames[i]), palette, centiseconds);
  }
  return writer.finish();
}

}  // namespace mstrain
