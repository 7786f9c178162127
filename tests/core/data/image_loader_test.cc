#include "core/data/image_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/data/image_augment.h"
#include "tests/core/data/scratch.h"

namespace mstrain {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> ten_names() { return std::vector<std::string>(10, "x"); }

// Image i is 2 x 2 pixels: 4 i, 4 i + 1, …; its label is i modulo 10.
ImageSetPtr small_images(int64_t count, int64_t channels = 1) {
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < 4 * count; ++i) {
    pixels.push_back(static_cast<uint8_t>(i));
  }
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<int32_t>(i % 10));
  }
  return stored_images(std::move(pixels), 2, 2, 1, std::move(labels), ten_names(), channels);
}

ImageView bytes_view() { return {.size = 2, .mean = {0}, .std = {1.0 / 255}}; }

// Everything at once, on pictures that are not square.
ImageSetPtr noise_images(int64_t count) {
  Rng rng(1);
  std::vector<uint8_t> pixels(static_cast<size_t>(count * 9 * 11 * 3));
  for (uint8_t& pixel : pixels) {
    pixel = static_cast<uint8_t>(rng.below(256));
  }
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<int32_t>(i % 10));
  }
  return stored_images(std::move(pixels), 9, 11, 3, std::move(labels), ten_names(), 3);
}
ImageView everything() {
  ImageView view{.size = 8, .mean = {0.5}, .std = {0.5}};
  view.augment.crop = CropType::kResized;
  view.augment.flip = 0.5;
  view.augment.rand_augment = RandAugmentConfig{};
  view.augment.erase = 0.5;
  view.augment.mixup = 0.4;
  view.augment.cutmix = 1;
  return view;
}

TEST(ImageLoader, PixelsAreScaledByMeanAndDeviationOfTheirChannel) {
  const ImageSetPtr images = small_images(1, 3);  // pixels 0 1 2 3
  const PixelScale scale = pixel_scale(*images, 9);
  EXPECT_EQ(scale.mean.size(), 3U);
  EXPECT_DOUBLE_EQ(scale.mean[2], 1.5 / 255);
  EXPECT_DOUBLE_EQ(scale.std[2], std::sqrt(1.25) / 255);
  const ImageView view{.size = 2, .mean = {0, 0, 1.0 / 255}, .std = {1.0 / 255}};
  ImageLoader loader(images, view, ImageOrder::kOnce, 0, {.batch = 1});
  const ImageBatch& batch = loader.next();
  EXPECT_THAT(batch.pixels,
              testing::Pointwise(testing::FloatNear(1e-4),
                                 std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3, -1, 0, 1, 2}));
}

TEST(ImageLoader, EachPassShowsEveryImageOnceInAnOrderOfItsOwn) {
  ImageLoader loader(small_images(60), bytes_view(), ImageOrder::kShuffled, 5,
                     {.batch = 12, .workers = 2});
  ASSERT_EQ(loader.batches_per_epoch(), 5);
  std::vector<std::vector<float>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<float>& order = orders.emplace_back();
    for (int k = 0; k < 5; ++k) {
      const ImageBatch& batch = loader.next();
      for (size_t row = 0; row < 12; ++row) {
        const auto image = std::lround(batch.pixels[4 * row]) / 4;
        ASSERT_EQ(std::lround(batch.pixels[4 * row + 3]), 4 * image + 3);
        ASSERT_EQ(batch.labels[row], image % 10);
        order.push_back(batch.pixels[4 * row]);
      }
    }
    ASSERT_EQ(std::set<float>(order.begin(), order.end()).size(), 60U);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(ImageLoader, WorkersAndResumingChangeNothing) {
  const ImageSetPtr images = noise_images(50);
  ImageLoader straight(images, everything(), ImageOrder::kShuffled, 5, {.batch = 7, .workers = 0});
  std::vector<ImageBatch> expected;
  for (int k = 0; k < 12; ++k) {
    expected.push_back(straight.next());
  }
  for (const int workers : {0, 1, 2, 4}) {
    for (const int64_t done : {0, 1, 9}) {
      ImageLoader loader(images, everything(), ImageOrder::kShuffled, 5,
                         {.batch = 7, .workers = workers}, {7 * done});
      for (size_t k = static_cast<size_t>(done); k < expected.size(); ++k) {
        const ImageBatch& batch = loader.next();
        ASSERT_EQ(batch.pixels, expected[k].pixels);
        ASSERT_EQ(batch.labels, expected[k].labels);
        ASSERT_EQ(batch.others, expected[k].others);
        ASSERT_EQ(batch.shares, expected[k].shares);
      }
    }
  }
}

TEST(ImageLoader, WhatASampleIsMadeOfDoesNotDependOnItsBatch) {
  ImageView view = everything();
  view.augment.mixup = view.augment.cutmix = 0;
  const ImageSetPtr images = noise_images(20);
  ImageLoader small(images, view, ImageOrder::kShuffled, 3, {.batch = 2});
  ImageLoader large(images, view, ImageOrder::kShuffled, 3, {.batch = 10});
  std::vector<float> parts;
  for (int k = 0; k < 5; ++k) {
    const ImageBatch& batch = small.next();
    parts.insert(parts.end(), batch.pixels.begin(), batch.pixels.end());
  }
  EXPECT_EQ(parts, large.next().pixels);
}

TEST(ImageLoader, EachImageIsMixedWithTheNextOneAsThatWasRead) {
  ImageView view = bytes_view();
  ImageLoader plain(small_images(4), view, ImageOrder::kRepeated, 0, {.batch = 4});
  const std::vector<float> before = plain.next().pixels;
  view.augment.mixup = 1;
  ImageLoader mixed(small_images(4), view, ImageOrder::kRepeated, 0, {.batch = 4});
  const ImageBatch& batch = mixed.next();
  EXPECT_THAT(batch.others, ElementsAre(1, 2, 3, 0));
  for (size_t row = 0; row < 4; ++row) {
    const float share = batch.shares[row];
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(batch.pixels[4 * row + i],
                  share * before[4 * row + i] + (1 - share) * before[4 * ((row + 1) % 4) + i],
                  1e-4);
    }
  }
}

TEST(ImageLoader, EvaluationSeesImagesAsTheyAreAndEndsInPadding) {
  ImageView view = everything();
  view.size = 2;
  view.mean = {0};
  view.std = {1.0 / 255};
  ImageLoader loader(small_images(5), view, ImageOrder::kOnce, 0, {.batch = 3});
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  const ImageBatch& first = loader.next();
  EXPECT_THAT(first.labels, ElementsAre(0, 1, 2));
  EXPECT_THAT(first.shares, Each(1.0F));
  EXPECT_NEAR(first.pixels[4], 4, 1e-4);
  const ImageBatch& last = loader.next();
  EXPECT_THAT(last.labels, ElementsAre(3, 4, kIgnoreTarget));
  EXPECT_NEAR(last.pixels[4], 16, 1e-4);
  EXPECT_EQ(last.pixels[8], 0);
  EXPECT_THAT(loader.next().labels, Each(kIgnoreTarget));
}

TEST(ImageLoader, TheMiddleIsASquareOfTheShorterSide) {
  const ImageRegion region = center_region(0.875, 256, 400, 224);
  EXPECT_EQ(region.height, 224);
  EXPECT_EQ(region.width, 224);
  EXPECT_EQ(region.top, 16);
  EXPECT_EQ(region.left, 88);
}

}  // namespace
}  // namespace mstrain
