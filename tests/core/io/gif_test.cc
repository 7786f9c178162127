#include "core/io/images/gif.h"

#include <gif_lib.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

struct Source {
  std::string bytes;
  size_t at = 0;
  static int read(GifFileType* gif, GifByteType* out, int count) {
    auto* self = static_cast<Source*>(gif->UserData);
    const size_t size = std::min(static_cast<size_t>(count), self->bytes.size() - self->at);
    std::memcpy(out, self->bytes.data() + self->at, size);
    self->at += size;
    return static_cast<int>(size);
  }
};

// Frames as a viewer shows them, and the time of the first.
std::vector<Image> decoded(const std::string& bytes, int& centiseconds) {
  Source source{bytes};
  int error = 0;
  GifFileType* gif = DGifOpen(&source, Source::read, &error);
  EXPECT_NE(gif, nullptr);
  EXPECT_EQ(DGifSlurp(gif), GIF_OK);
  std::vector<Image> frames;
  Image shown(gif->SHeight, gif->SWidth, 3);
  for (int i = 0; i < gif->ImageCount; ++i) {
    const SavedImage& part = gif->SavedImages[i];
    for (int y = 0; y < part.ImageDesc.Height; ++y) {
      for (int x = 0; x < part.ImageDesc.Width; ++x) {
        const GifColorType& c =
            gif->SColorMap->Colors[part.RasterBits[y * part.ImageDesc.Width + x]];
        uint8_t* p = shown.row(part.ImageDesc.Top + y) + (part.ImageDesc.Left + x) * 3;
        p[0] = c.Red;
        p[1] = c.Green;
        p[2] = c.Blue;
      }
    }
    frames.push_back(shown);
  }
  GraphicsControlBlock control;
  EXPECT_EQ(DGifSavedExtensionToGCB(gif, 0, &control), GIF_OK);
  centiseconds = control.DelayTime;
  DGifCloseFile(gif, &error);
  return frames;
}

TEST(Gif, ShowsTheFramesThatItWasGiven) {
  Rng rng(4);
  for (uint64_t colours : {1, 2, 3, 17, 256}) {
    std::vector<Image> frames;
    for (int i = 0; i < 5; ++i) {
      Image frame(13, 21, 3);
      if (i > 0) {
        frame = frames.back();
      }
      for (int changes = i == 0 ? 13 * 21 : i * 9; changes > 0; --changes) {
        const auto colour = static_cast<uint8_t>(rng.below(colours));
        uint8_t* p = frame.pixels.data() + rng.below(13 * 21) * 3;
        p[0] = colour;
        p[1] = static_cast<uint8_t>(255 - colour);
        p[2] = static_cast<uint8_t>(colour * 7);
      }
      frames.push_back(frame);
    }
    frames.push_back(frames.back());  // nothing moves
    int centiseconds = 0;
    const std::string file = encode_gif(frames, 4);
    EXPECT_EQ(file.substr(0, 6), "GIF89a");
    EXPECT_TRUE(decoded(file, centiseconds) == frames) << colours;
    EXPECT_EQ(centiseconds, 4);
    EXPECT_EQ(file, encode_gif(frames, 4));
  }
}

TEST(Gif, TakesTheNearestOfTheCommonColoursWhereThereAreTooMany) {
  Image frame(32, 32, 3);
  for (int64_t i = 0; i < 32 * 32; ++i) {
    uint8_t* p = frame.pixels.data() + i * 3;
    p[0] = static_cast<uint8_t>(i % 32 * 8);
    p[1] = static_cast<uint8_t>(i / 32 * 8);
    p[2] = i % 2 == 0 ? 0 : 255;
  }
  int centiseconds = 0;
  const Image shown = decoded(encode_gif(std::span(&frame, 1), 10), centiseconds).at(0);
  int64_t exact = 0;
  for (int64_t i = 0; i < 32 * 32; ++i) {
    exact += std::equal(shown.pixels.begin() + i * 3, shown.pixels.begin() + i * 3 + 3,
                        frame.pixels.begin() + i * 3);
  }
  EXPECT_EQ(exact, 256);
}

TEST(Gif, RefusesFramesThatAreNotAlike) {
  const std::vector<Image> frames = {Image(4, 4, 3), Image(4, 5, 3)};
  EXPECT_THROW(encode_gif(frames, 4), Error);
  EXPECT_THROW(encode_gif({}, 4), Error);
  EXPECT_THROW(encode_gif(std::vector<Image>{Image(4, 4, 1)}, 4), Error);
}

}  // namespace
}  // namespace mstrain
