#include "core/data/image_augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "core/data/image_resize.h"
#include "core/data/rand_augment.h"
#include "tests/golden/images.h"
#include "tests/golden/unhex.h"

namespace mstrain {
namespace {

using testing::Each;

Image golden_picture() {
  Image image(7, 9, 3);
  const std::string pixels = golden::unhex(golden::kPicture);
  image.pixels.assign(pixels.begin(), pixels.end());
  return image;
}

void expect_pixels(const Image& image, std::string_view expected, int tolerance) {
  const std::string pixels = golden::unhex(expected);
  ASSERT_EQ(image.pixels.size(), pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) {
    ASSERT_NEAR(image.pixels[i], static_cast<uint8_t>(pixels[i]), tolerance) << i;
  }
}

TEST(ImageResize, PicturesAreThoseOfPil) {
  for (const golden::PictureSize& expected : golden::kResizedPictures) {
    SCOPED_TRACE(testing::Message() << expected.height << " x " << expected.width);
    // PIL rounds between its two passes.
    expect_pixels(resized(golden_picture(), expected.height, expected.width), expected.pixels, 1);
  }
}

TEST(ImageResize, FlippingTwiceChangesNothing) {
  Image image = golden_picture();
  flip_horizontally(image);
  EXPECT_EQ(image.row(3)[1], golden_picture().row(3)[8 * 3 + 1]);
  flip_horizontally(image);
  EXPECT_EQ(image, golden_picture());
}

TEST(RandAugment, EveryChangeIsTorchvisions) {
  constexpr double kStrength = 9.0 / 30;
  for (const golden::ChangedPicture& expected : golden::kChangedPictures) {
    SCOPED_TRACE(testing::Message() << expected.name << " " << expected.sign);
    Image image = golden_picture();
    bool found = false;
    for (const PictureChange& change : picture_changes()) {
      if (change.name == expected.name) {
        change.apply(image, kStrength, expected.sign);
        found = true;
      }
    }
    ASSERT_TRUE(found);
    expect_pixels(image, expected.pixels, 1);  // products of floats are cut to bytes
  }
}

TEST(RandAugment, GreyPicturesAndSmallOnesKeepTheirSize) {
  Rng rng(3);
  for (const auto& [height, width] : {std::pair(1, 1), {2, 5}, {28, 28}}) {
    for (int i = 0; i < 200; ++i) {
      Image image(height, width, 1);
      rand_augment(image, 2, 30, rng);
      ASSERT_EQ(image.pixels.size(), static_cast<size_t>(height * width));
    }
  }
}

TEST(ImageAugment, ResizedCropsCoverSharesAndShapesThatAreAllowed) {
  AugmentConfig config;
  config.crop = CropType::kResized;
  config.scale = {0.25, 0.5};
  config.ratio = {0.5, 2};
  Rng rng(5);
  for (int i = 0; i < 500; ++i) {
    const ImageRegion region = random_region(config, 300, 400, 10, rng);
    image_files::check_region(region, 300, 400);
    const double share = static_cast<double>(region.height * region.width) / (300 * 400);
    const double shape = static_cast<double>(region.width) / static_cast<double>(region.height);
    ASSERT_GT(share, 0.24);
    ASSERT_LT(share, 0.51);
    ASSERT_GT(shape, 0.49);
    ASSERT_LT(shape, 2.05);
    ASSERT_EQ(region.least_height, 10);
  }
  // Nothing fits into a line of pixels: its middle, in the shape that comes nearest.
  const ImageRegion line = random_region(config, 1, 400, 10, rng);
  EXPECT_EQ(line.height, 1);
  EXPECT_EQ(line.width, 2);
}

TEST(ImageAugment, PaddedCropsMoveThePictureOverBlack) {
  AugmentConfig config;
  config.crop = CropType::kPadded;
  config.padding = 2;
  std::set<std::pair<int, int>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Image image(5, 5, 1);
    image.row(2)[2] = 9;
    Rng rng(seed);
    augment(image, config, rng);
    const auto at = std::find(image.pixels.begin(), image.pixels.end(), 9) - image.pixels.begin();
    ASSERT_LT(at, 25);
    ASSERT_EQ(std::accumulate(image.pixels.begin(), image.pixels.end(), 0), 9);
    seen.emplace(static_cast<int>(at / 5), static_cast<int>(at % 5));
  }
  EXPECT_EQ(seen.size(), 25U);
  config.padding = 9;  // out of sight
  Image image(5, 5, 1);
  std::fill(image.pixels.begin(), image.pixels.end(), 1);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    augment(image, config, rng);
  }
  EXPECT_THAT(image.pixels, Each(0));
}

TEST(ImageAugment, ErasingLeavesARectangleOfZeros) {
  AugmentConfig config;
  config.erase = 1;
  Rng rng(2);
  for (int i = 0; i < 100; ++i) {
    std::vector<float> pixels(2 * 20 * 20, 1.0F);
    erase(pixels, 20, config, rng);
    const auto erased = std::count(pixels.begin(), pixels.begin() + 400, 0.0F);
    ASSERT_GE(erased, 400 * 0.01);
    ASSERT_LE(erased, 400 * 0.36);
    ASSERT_TRUE(std::equal(pixels.begin(), pixels.begin() + 400, pixels.begin() + 400));
  }
}

TEST(ImageAugment, MixingKeepsTheShareThatItTells) {
  Rng rng(4);
  for (const bool cuts : {false, true}) {
    AugmentConfig config;
    (cuts ? config.cutmix : config.mixup) = 0.8;
    double sum = 0;
    for (int i = 0; i < 500; ++i) {
      std::vector<float> mine(3 * 16 * 16, 1.0F);
      const std::vector<float> other(mine.size(), 0.0F);
      const float share = mix_pictures(mine, other, 16, config, rng);
      const float mean =
          std::accumulate(mine.begin(), mine.end(), 0.0F) / static_cast<float>(mine.size());
      ASSERT_NEAR(mean, share, 1e-4);
      for (const float pixel : mine) {
        ASSERT_TRUE(cuts ? pixel == 0 || pixel == 1 : pixel == share);
      }
      sum += share;
    }
    // A rectangle of side s sticks out where its centre is near an edge: (s - s^2 / 4)^2 of it is seen, in the mean.
    EXPECT_NEAR(sum / 500, cuts ? 0.683 : 0.5, 0.06);
  }
}

// Mean 1/2, variance 1 / (4 (2 alpha + 1)); five standard errors.
TEST(ImageAugment, BetaDrawsHaveTheMomentsOfBeta) {
  for (const double alpha : {0.1, 0.8, 1.0, 4.0}) {
    Rng rng(9);
    constexpr int kDraws = 20000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = symmetric_beta(alpha, rng);
      ASSERT_TRUE(x >= 0 && x <= 1);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(variance / kDraws));
    EXPECT_NEAR(squares / kDraws, variance, 5 * 0.25 / std::sqrt(kDraws));
  }
}

// Of Beta(a, a) about a ln(1e3) lies between 1e-3 and 1 - 1e-3: 0.7 % where a is 1e-3.
TEST(ImageAugment, BetaDrawsOfASmallAlphaAreNearlyZeroOrOne) {
  for (const double alpha : {1e-3, 1e-8, 1e-310}) {
    Rng rng(9);
    constexpr int kDraws = 2000;
    int between = 0;
    int high = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = symmetric_beta(alpha, rng);
      ASSERT_TRUE(x >= 0 && x <= 1);
      between += x > 1e-3 && x < 1 - 1e-3 ? 1 : 0;
      high += x > 0.5 ? 1 : 0;
    }
    EXPECT_LE(between, alpha == 1e-3 ? 60 : 0);
    EXPECT_NEAR(high, kDraws / 2, 5 * std::sqrt(kDraws / 4.0));
  }
}

}  // namespace
}  // namespace mstrain
