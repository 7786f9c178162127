#include "core/data/image_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/base/error.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Image i is 1 x 2 pixels: 2 i, 2 i + 1; its label is i modulo 10.
LabeledImages small_images(int64_t count) {
  LabeledImages data;
  data.images.shape = {count, 1, 2};
  data.labels.shape = {count};
  for (int64_t i = 0; i < count; ++i) {
    data.images.data.push_back(static_cast<std::byte>(2 * i));
    data.images.data.push_back(static_cast<std::byte>(2 * i + 1));
    data.labels.data.push_back(static_cast<std::byte>(i % 10));
  }
  return data;
}

std::shared_ptr<const ImageDataset> dataset(int64_t count) {
  return std::make_shared<ImageDataset>(small_images(count), PixelScale{0, 1.0F / 255});
}

TEST(ImageDataset, PixelsAreScaledByMeanAndDeviation) {
  const LabeledImages data = small_images(2);  // pixels 0 1 2 3
  const PixelScale scale = pixel_scale(data);
  EXPECT_FLOAT_EQ(scale.mean, 1.5F / 255);
  EXPECT_FLOAT_EQ(scale.deviation, std::sqrt(1.25F) / 255);
  const ImageDataset images(data, scale);
  std::vector<float> pixels(2);
  EXPECT_EQ(images.read(1, pixels), 1);
  EXPECT_NEAR(pixels[0], 0.5F / std::sqrt(1.25F), 1e-5);
  EXPECT_NEAR(pixels[1], 1.5F / std::sqrt(1.25F), 1e-5);
  EXPECT_THROW(images.read(2, pixels), Error);
  pixels.resize(3);
  EXPECT_THROW(images.read(0, pixels), Error);
}

TEST(ImageDataset, WhatIsNoSetOfImagesIsRefused) {
  EXPECT_THROW(ImageDataset(LabeledImages{}), Error);
  EXPECT_THROW(ImageDataset(small_images(0)), Error);
  LabeledImages fewer = small_images(3);
  fewer.labels.shape = {2};
  EXPECT_THROW(ImageDataset{fewer}, Error);
  EXPECT_THROW(ImageDataset(small_images(3), {0, 0}), Error);
}

TEST(ImageLoader, EachPassShowsEveryImageOnceInAnOrderOfItsOwn) {
  ImageLoader loader(dataset(60), ImageOrder::kShuffled, 5, {.batch = 12, .workers = 2});
  ASSERT_EQ(loader.batches_per_epoch(), 5);
  std::vector<std::vector<float>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<float>& order = orders.emplace_back();
    for (int k = 0; k < 5; ++k) {
      const ImageBatch& batch = loader.next();
      for (int64_t row = 0; row < 12; ++row) {
        const auto image = std::lround(batch.images[2 * row]) / 2;
        ASSERT_EQ(std::lround(batch.images[2 * row + 1]), 2 * image + 1);
        ASSERT_EQ(batch.labels[row], image % 10);
        order.push_back(batch.images[2 * row]);
      }
    }
    ASSERT_EQ(std::set<float>(order.begin(), order.end()).size(), 60U);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(ImageLoader, WorkersAndResumingChangeNothing) {
  const auto images = dataset(50);
  ImageLoader straight(images, ImageOrder::kShuffled, 5, {.batch = 7, .workers = 0});
  std::vector<std::vector<float>> expected;
  for (int k = 0; k < 30; ++k) {
    expected.push_back(straight.next().images);
  }
  for (const int workers : {0, 1, 2, 4}) {
    for (const int64_t done : {0, 1, 9, 20}) {
      ImageLoader loader(images, ImageOrder::kShuffled, 5, {.batch = 7, .workers = workers},
                         {7 * done});
      for (int64_t k = done; k < 30; ++k) {
        ASSERT_EQ(loader.next().images, expected[k]);
      }
    }
  }
}

TEST(ImageLoader, OnceEndsInPadding) {
  ImageLoader loader(dataset(5), ImageOrder::kOnce, 0, {.batch = 3});
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_THAT(loader.next().labels, ElementsAre(0, 1, 2));
  const ImageBatch& last = loader.next();
  EXPECT_THAT(last.labels, ElementsAre(3, 4, kIgnoreTarget));
  EXPECT_FLOAT_EQ(last.images[3], 9);
  EXPECT_EQ(last.images[4], 0);
  EXPECT_THAT(loader.next().labels, testing::Each(kIgnoreTarget));
}

TEST(ImageLoader, MnistFilesAreFoundPlainAndMissingOnesNamed) {
  const Scratch scratch;
  scratch.write("t10k-images-idx3-ubyte",
                std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x01\x07\x09", 18));
  EXPECT_THAT(message_of<IoError>([&] { open_mnist(real_files(), scratch.root(), "t10k"); }),
              HasSubstr("t10k-labels-idx1-ubyte: no such file, with .gz or without"));
  scratch.write("t10k-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x02\x03\x04", 10));
  const ImageDataset images(open_mnist(real_files(), scratch.root(), "t10k"));
  std::vector<float> pixels(1);
  EXPECT_EQ(images.read(1, pixels), 4);
  EXPECT_FLOAT_EQ(pixels[0], 9.0F / 255);
}

TEST(ImageLoader, FashionMnistIsReadAsPublished) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!real_files().is_directory(folder)) {
    GTEST_SKIP() << folder << " is not there (Debian package dataset-fashion-mnist)";
  }
  const LabeledImages data = open_mnist(real_files(), folder, "train");
  EXPECT_THAT(data.images.shape, ElementsAre(60000, 28, 28));
  const PixelScale scale = pixel_scale(data);  // 0.2860 and 0.3530 are the figures in common use
  EXPECT_NEAR(scale.mean, 0.2860, 5e-5);
  EXPECT_NEAR(scale.deviation, 0.3530, 5e-5);
  std::vector<int> of_class(10);
  for (const std::byte label : data.labels.data) {
    ++of_class[std::to_integer<int>(label)];
  }
  EXPECT_THAT(of_class, testing::Each(6000));
  const auto test = std::make_shared<ImageDataset>(open_mnist(real_files(), folder, "t10k"), scale);
  EXPECT_EQ(test->size(), 10000);
}

}  // namespace
}  // namespace mstrain
