#include "core/io/images/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/io/images/cifar.h"
#include "tests/core/base/temporary_folder.h"
#include "tests/golden/images.h"
#include "tests/golden/unhex.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

std::string image_error(std::string_view file) {
  try {
    decode_image(as_bytes(file), "x.img");
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("x.img: "));
    return error.what();
  }
  return "no error";
}

golden::PictureFile golden_file(std::string_view name) {
  for (const golden::PictureFile& file : golden::kPictureFiles) {
    if (file.name == name) {
      return file;
    }
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(Image, EveryKindOfFileHasThePixelsThatPilSees) {
  for (const golden::PictureFile& expected : golden::kPictureFiles) {
    SCOPED_TRACE(expected.name);
    const Image image = decode_image(as_bytes(golden::unhex(expected.file)), "x");
    ASSERT_EQ(image.height, expected.height);
    ASSERT_EQ(image.width, expected.width);
    ASSERT_EQ(image.channels, expected.channels);
    const std::string pixels = golden::unhex(expected.pixels);
    ASSERT_EQ(image.pixels.size(), pixels.size());
    // PNG is exact; of JPEG libraries differ in rounding.
    const int tolerance = golden::unhex(expected.file)[1] == 'P' ? 0 : 2;
    for (size_t i = 0; i < pixels.size(); ++i) {
      ASSERT_NEAR(image.pixels[i], static_cast<uint8_t>(pixels[i]), tolerance) << i;
    }
  }
}

TEST(Image, ARegionHasThePixelsOfTheWhole) {
  for (const std::string_view name : {"rgb", "palette", "jpeg", "progressive"}) {
    SCOPED_TRACE(name);
    const std::string file = golden::unhex(golden_file(name).file);
    const Image whole = decode_image(as_bytes(file), "x");
    for (int64_t top = 0; top < 4; ++top) {
      for (int64_t left = 0; left < 5; ++left) {
        const Image part = decode_image(as_bytes(file), "x", [&](int64_t h, int64_t w) {
          return ImageRegion{top, left, h - top - 1, w - left - 2};
        });
        ASSERT_EQ(part.height, whole.height - top - 1);
        ASSERT_EQ(part.width, whole.width - left - 2);
        for (int64_t y = 0; y < part.height; ++y) {
          for (int64_t i = 0; i < part.width * part.channels; ++i) {
            ASSERT_EQ(part.row(y)[i], whole.row(top + y)[left * whole.channels + i]);
          }
        }
      }
    }
  }
}

TEST(Image, AJpegIsDecodedSmallerWhereFewPixelsAreWanted) {
  const std::string file = golden::unhex(golden::kLargeJpeg.file);
  const auto read = [&](int64_t least) {
    return decode_image(as_bytes(file), "x", [least](int64_t h, int64_t w) {
      return ImageRegion{0, 0, h, w, least, least};
    });
  };
  EXPECT_EQ(read(0).height, 40);
  EXPECT_EQ(read(21).height, 40);
  EXPECT_EQ(read(20).height, 20);
  EXPECT_EQ(read(20).width, 26);
  EXPECT_EQ(read(5).height, 5);
  EXPECT_EQ(read(1).height, 5);  // an eighth is the least
  // Means of four pixels, nearly.
  const Image whole = read(0);
  const Image half = read(20);
  double difference = 0;
  for (int64_t y = 0; y < half.height; ++y) {
    for (int64_t x = 0; x < half.width; ++x) {
      const auto at = [&](int64_t dy, int64_t dx) {
        return static_cast<double>(whole.row(2 * y + dy)[(2 * x + dx) * 3]);
      };
      difference += std::abs((at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4 - half.row(y)[x * 3]);
    }
  }
  EXPECT_LT(difference / static_cast<double>(half.height * half.width), 3);
}

TEST(Image, GreyAndColoursBecomeEachOther) {
  Image colours(1, 2, 3);
  colours.pixels = {255, 0, 0, 10, 20, 30};
  EXPECT_THAT(with_channels(colours, 1).pixels, testing::ElementsAre(76, 18));
  EXPECT_EQ(with_channels(colours, 3), colours);
  EXPECT_THAT(with_channels(with_channels(colours, 1), 3).pixels,
              testing::ElementsAre(76, 76, 76, 18, 18, 18));
  EXPECT_THROW(with_channels(colours, 2), Error);
}

TEST(Image, WhatIsWrittenAsPngReadsBack) {
  Rng rng(1);
  for (const int64_t channels : {1, 3}) {
    Image image(13, 29, channels);
    for (uint8_t& pixel : image.pixels) {
      pixel = static_cast<uint8_t>(rng.below(256));
    }
    EXPECT_EQ(decode_image(as_bytes(encode_png(image)), "x"), image);
  }
}

TEST(Image, WhatIsNoPictureIsRefusedByName) {
  EXPECT_THAT(image_error(""), HasSubstr("the file is empty"));
  EXPECT_THAT(image_error("GIF89a"), HasSubstr("neither a PNG nor a JPEG file"));
  std::string png = golden::unhex(golden_file("rgb").file);
  std::string jpeg = golden::unhex(golden_file("jpeg").file);
  for (size_t size = 8; size < png.size() - 12; ++size) {  // the end's mark may be missing
    ASSERT_THAT(image_error(png.substr(0, size)), HasSubstr("damaged PNG")) << size;
  }
  for (size_t size = 3; size + 2 < jpeg.size(); ++size) {
    ASSERT_THAT(image_error(jpeg.substr(0, size)), HasSubstr("damaged JPEG")) << size;
  }
  png.replace(16, 8, std::string(8, '\x7f'));
  EXPECT_NE(image_error(png), "no error");
}

// 65500 x 65500 pixels, which no such file could hold.
TEST(Image, AbsurdSizesTakeNoMemory) {
  std::string jpeg = golden::unhex(golden_file("jpeg").file);
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(image_error(jpeg), HasSubstr("a picture of 65500 x 65500 pixels"));
}

TEST(Image, DamageIsAnErrorOrAPictureNeverACrash) {
  Rng rng(7);
  for (const golden::PictureFile& file : golden::kPictureFiles) {
    const std::string good = golden::unhex(file.file);
    for (int round = 0; round < 300; ++round) {
      std::string bad = good;
      for (uint64_t i = 1 + rng.below(4); i > 0; --i) {
        bad[rng.below(bad.size())] = static_cast<char>(rng.below(256));
      }
      if (rng.below(4) == 0) {
        bad.resize(rng.below(bad.size()));
      }
      try {
        const Image image = decode_image(as_bytes(bad), "x");
        ASSERT_EQ(image.pixels.size(),
                  static_cast<size_t>(image.height * image.width * image.channels));
      } catch (const IoError& error) {
        ASSERT_THAT(error.what(), testing::StartsWith("x: "));
      }
    }
  }
}

TEST(Cifar, RecordsBecomePicturesOfInterleavedColours) {
  const TemporaryFolder folder;
  std::string record(1, '\x07');
  for (int c = 0; c < 3; ++c) {
    record += std::string(1024, static_cast<char>(10 * c));
  }
  record[1 + 1024] = 99;  // the first green one
  const std::string path = folder.path() + "/a.bin";
  const auto write = [&](const std::string& bytes) {
    write_file_atomic(real_files(), path, bytes);
  };
  write(record + record);
  CifarImages images;
  read_cifar(real_files(), path, 10, images);
  EXPECT_THAT(images.labels, testing::ElementsAre(7, 7));
  ASSERT_EQ(images.pixels.size(), 2U * 3072);
  EXPECT_EQ(images.pixels[0], 0);
  EXPECT_EQ(images.pixels[1], 99);
  EXPECT_EQ(images.pixels[2], 20);
  EXPECT_EQ(images.pixels[4], 10);
  write(std::string(1, '\x05') + record);  // coarse, then fine
  CifarImages fine;
  read_cifar(real_files(), path, 100, fine);
  EXPECT_THAT(fine.labels, testing::ElementsAre(7));
}

TEST(Cifar, WhatIsWrongIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.bin";
  const auto error = [&](const std::string& bytes) -> std::string {
    write_file_atomic(real_files(), path, bytes);
    CifarImages images;
    try {
      read_cifar(real_files(), path, 10, images);
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), testing::StartsWith(path));
      return e.what();
    }
    return "no error";
  };
  const std::string record(3073, '\0');
  EXPECT_THAT(error(""), HasSubstr("no whole number"));
  EXPECT_THAT(error(record + "x"), HasSubstr("offset 3074: no whole number of CIFAR-10's records"));
  EXPECT_THAT(error(record + "\x0a" + record.substr(1)),
              HasSubstr("offset 3073: label 10, expected below 10"));
}

TEST(Cifar, FuzzedFilesNeverCrash) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.bin";
  Rng rng(11);
  int read = 0;
  for (int round = 0; round < 300; ++round) {
    const int classes = rng.below(2) == 0 ? 10 : 100;
    const size_t record = classes == 100 ? 3074 : 3073;
    const size_t records = rng.below(4);
    std::string file(records * record, '\0');
    for (char& byte : file) {
      byte = static_cast<char>(rng.below(256));
    }
    for (size_t i = 0; i < records && rng.below(4) > 0; ++i) {
      file[i * record + record - 3073] = static_cast<char>(rng.below(12));
    }
    if (rng.below(3) == 0) {
      file.resize(rng.below(4 * record));
    }
    write_file_atomic(real_files(), path, file);
    CifarImages images;
    try {
      read_cifar(real_files(), path, classes, images);
      EXPECT_EQ(file.size(), images.labels.size() * record);
      EXPECT_EQ(images.pixels.size(), images.labels.size() * 3072);
      for (const int32_t label : images.labels) {
        EXPECT_TRUE(label >= 0 && label < classes) << label;
      }
      ++read;
    } catch (const IoError& error) {
      ASSERT_THAT(error.what(), testing::StartsWith(path + ": offset "));
    }
  }
  EXPECT_GT(read, 20);
}

}  // namespace
}  // namespace mstrain
