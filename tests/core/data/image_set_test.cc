#include "core/data/image_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/image_loader.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string png_of(uint8_t value, int64_t channels = 3) {
  Image image(2, 3, channels);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return encode_png(image);
}

// IDX: `count` images of 1 x 1 pixels, number and label count up.
void write_idx(const Scratch& scratch, const std::string& part, int count) {
  std::string images("\0\0\x08\x03\0\0\0\0\0\0\0\x01\0\0\0\x01", 16);
  std::string labels("\0\0\x08\x01\0\0\0\0", 8);
  images[7] = labels[7] = static_cast<char>(count);
  for (int i = 0; i < count; ++i) {
    images.push_back(static_cast<char>(100 + i));
    labels.push_back(static_cast<char>(i));
  }
  scratch.write(part + "-images-idx3-ubyte", images);
  scratch.write(part + "-labels-idx1-ubyte", labels);
}

std::string open_error(const std::string& path) {
  return message_of<IoError>([&] { open_images(real_files(), path, 1); });
}

TEST(ImageSet, FoldersAreClassesInTheOrderOfTheirNames) {
  const Scratch scratch;
  scratch.write("dog/a.png", png_of(1));
  scratch.write("dog/deep/b.PNG", png_of(2));
  scratch.write("cat/c.png", png_of(3, 1));
  scratch.write("cat/notes.txt", "no image");
  const ImageParts parts = open_images(real_files(), scratch.root(), 3);
  EXPECT_EQ(parts.held_out, nullptr);
  EXPECT_THAT(parts.train->names(), ElementsAre("cat", "dog"));
  ASSERT_EQ(parts.train->size(), 3);
  EXPECT_EQ(parts.train->label(0), 0);
  EXPECT_EQ(parts.train->label(2), 1);
  const Image grey = parts.train->read(0);
  EXPECT_EQ(grey.channels, 3);
  EXPECT_EQ(grey.pixels[5], 3);
}

TEST(ImageSet, FoldersOfTrainingAndValidationStandBesideEachOther) {
  const Scratch scratch;
  scratch.write("train/cat/a.png", png_of(1));
  scratch.write("train/dog/a.png", png_of(2));
  scratch.write("val/dog/a.png", png_of(3));
  const ImageParts parts = open_images(real_files(), scratch.root(), 1);
  ASSERT_NE(parts.held_out, nullptr);
  EXPECT_EQ(parts.held_out->label(0), 1);
  EXPECT_EQ(parts.held_out->classes(), 2);
  scratch.write("val/dig/a.png", png_of(3));
  EXPECT_THAT(open_error(scratch.root()),
              HasSubstr("val/dig: is none of the 2 classes that are learnt; did you mean dog?"));
}

TEST(ImageSet, ADamagedPictureIsNamedWhenItIsRead) {
  const Scratch scratch;
  scratch.write("cat/a.png", png_of(1).substr(0, 40));
  const ImageParts parts = open_images(real_files(), scratch.root(), 1);
  EXPECT_THAT(message_of<IoError>([&] { parts.train->read(0); }), HasSubstr("cat/a.png: offset"));
}

TEST(ImageSet, AnEmptyPictureIsNamed) {
  const Scratch scratch;
  scratch.write("cat/a.png", png_of(1));
  scratch.write("cat/deep/b.jpg", "");
  scratch.write("cat/notes.txt", "");
  EXPECT_THAT(open_error(scratch.root()), HasSubstr("cat/deep/b.jpg: the file is empty"));
}

TEST(ImageSet, MnistFilesAreFoundWithWhatTheyHoldOut) {
  const Scratch scratch;
  write_idx(scratch, "train", 5);
  EXPECT_EQ(open_images(real_files(), scratch.root(), 1).held_out, nullptr);
  write_idx(scratch, "t10k", 3);
  const ImageParts parts = open_images(real_files(), scratch.root(), 1);
  EXPECT_EQ(parts.train->size(), 5);
  EXPECT_EQ(parts.train->classes(), 5);
  ASSERT_NE(parts.held_out, nullptr);
  EXPECT_EQ(parts.held_out->size(), 3);
  EXPECT_THAT(parts.held_out->read(1).pixels, ElementsAre(101));
  EXPECT_EQ(open_held_out_images(real_files(), scratch.root(), *parts.train)->size(), 3);
  write_idx(scratch, "t10k", 9);
  EXPECT_THAT(open_error(scratch.root()), HasSubstr("images of 9 classes, but 5 are learnt"));
}

TEST(ImageSet, CifarsFilesAreFoundByTheirNames) {
  const Scratch scratch;
  const auto records = [](int count, size_t labels) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += std::string(labels, static_cast<char>(i)) + std::string(3072, static_cast<char>(i));
    }
    return bytes;
  };
  for (int i = 1; i <= 5; ++i) {
    scratch.write("ten/data_batch_" + std::to_string(i) + ".bin", records(2, 1));
  }
  scratch.write("ten/test_batch.bin", records(3, 1));
  const ImageParts ten = open_images(real_files(), scratch.path("ten"), 3);
  EXPECT_EQ(ten.train->size(), 10);
  EXPECT_EQ(ten.train->classes(), 10);
  EXPECT_EQ(ten.held_out->size(), 3);
  EXPECT_EQ(ten.train->read(1).height, 32);
  scratch.write("hundred/train.bin", records(4, 2));
  const ImageParts hundred = open_images(real_files(), scratch.path("hundred"), 1);
  EXPECT_EQ(hundred.train->classes(), 100);
  EXPECT_EQ(hundred.train->label(3), 3);
  EXPECT_EQ(hundred.held_out, nullptr);
}

TEST(ImageSet, WhatHoldsNoImagesIsToldWhatWasExpected) {
  const Scratch scratch;
  EXPECT_THAT(open_error(scratch.path("missing")), HasSubstr("missing"));
  EXPECT_THAT(open_error(scratch.write("file", "x")), HasSubstr("expected a folder of images"));
  EXPECT_THAT(open_error(scratch.root()), HasSubstr("expected a folder of PNG or JPEG files for"));
  scratch.write("t10k-images-idx3-ubyte", "x");
  EXPECT_THAT(open_error(scratch.root()),
              HasSubstr("t10k-labels-idx1-ubyte: no such file, with .gz or without"));
}

TEST(ImageSet, OtherFoldersDoNotLookLikeImagesAndLinksInCirclesEnd) {
  const Scratch scratch;
  EXPECT_FALSE(looks_like_images(real_files(), scratch.root()));
  scratch.write("cat/deep/a.png", png_of(1));
  std::filesystem::create_directory_symlink(scratch.path("cat"), scratch.path("cat/deep/again"));
  EXPECT_TRUE(looks_like_images(real_files(), scratch.root()));
  EXPECT_EQ(open_images(real_files(), scratch.root(), 1).train->size(), 1);
  scratch.write("logs/run.txt", "no image");
  EXPECT_FALSE(looks_like_images(real_files(), scratch.root()));
}

TEST(ImageSet, EqualDataHaveEqualIdentities) {
  const auto images = [](uint8_t pixel, int32_t label) {
    return stored_images({pixel}, 1, 1, 1, {label}, {"a", "b"}, 1)->identity();
  };
  EXPECT_EQ(images(1, 0), images(1, 0));
  EXPECT_NE(images(1, 0), images(2, 0));
  EXPECT_NE(images(1, 0), images(1, 1));
  EXPECT_THROW(images(1, 2), Error);
}

TEST(ImageSet, FashionMnistIsReadAsPublished) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!real_files().is_directory(folder)) {
    GTEST_SKIP() << folder << " is not there (Debian package dataset-fashion-mnist)";
  }
  const auto [train, test] = open_images(real_files(), folder, 1);
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(test->size(), 10000);
  EXPECT_EQ(train->classes(), 10);
  const PixelScale scale = pixel_scale(*train, train->size());
  EXPECT_NEAR(scale.mean[0], 0.2860, 5e-5);  // the figures in common use
  EXPECT_NEAR(scale.std[0], 0.3530, 5e-5);
  std::vector<int> of_class(10);
  for (int64_t i = 0; i < train->size(); ++i) {
    ++of_class[static_cast<size_t>(train->label(i))];
  }
  EXPECT_THAT(of_class, testing::Each(6000));
}

}  // namespace
}  // namespace mstrain
