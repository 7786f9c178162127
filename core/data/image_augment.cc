#include "core/data/image_augment.h"

#include <algorithm>
#include <cmath>

#include "core/data/image_resize.h"
#include "core/data/rand_augment.h"

namespace mstrain {
namespace {

// A rectangle of a share of the area and a shape that are drawn, log-evenly; false where none of ten fits.
bool draw_rectangle(int64_t height, int64_t width, const std::array<double, 2>& scale,
                    const std::array<double, 2>& ratio, Rng& rng, ImageRegion& out) {
  const double area = static_cast<double>(height) * static_cast<double>(width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * rng.uniform(scale[0], scale[1]);
    const double shape = std::exp(rng.uniform(std::log(ratio[0]), std::log(ratio[1])));
    const auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(target * shape)));
    const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(target / shape)));
    if (h > 0 && w > 0 && h <= height && w <= width) {
      out = {rng.between(0, height - h), rng.between(0, width - w), h, w};
      return true;
    }
  }
  return false;
}

ImageRegion middle(int64_t height, int64_t width, int64_t h, int64_t w) {
  return {(height - h) / 2, (width - w) / 2, h, w};
}

// The middle, with a shape that is allowed (what torchvision does where no draw fits).
ImageRegion allowed_middle(int64_t height, int64_t width, const std::array<double, 2>& ratio) {
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  const auto rounded = [](double x, int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(x)), 1, most);
  };
  if (w / h < ratio[0]) {
    return middle(height, width, rounded(w / ratio[0], height), width);
  }
  if (w / h > ratio[1]) {
    return middle(height, width, height, rounded(h * ratio[1], width));
  }
  return whole_image(height, width);
}

void crop_padded(Image& image, int64_t padding, Rng& rng) {
  const int64_t down = rng.between(-padding, padding);
  const int64_t right = rng.between(-padding, padding);
  Image out(image.height, image.width, image.channels);
  const int64_t left = std::max<int64_t>(0, right);
  const int64_t columns = image.width - std::abs(right);
  for (int64_t y = std::max<int64_t>(0, down);
       columns > 0 && y < image.height + std::min<int64_t>(0, down); ++y) {
    std::copy_n(image.row(y - down) + (left - right) * image.channels, columns * image.channels,
                out.row(y) + left * image.channels);
  }
  image = std::move(out);
}

// Marsaglia & Tsang, "A simple method for generating gamma variables" (2000).
double gamma(double alpha, Rng& rng) {
  if (alpha < 1) {
    const double u = 1 - rng.uniform();
    return gamma(alpha + 1, rng) * std::pow(u, 1 / alpha);
  }
  const double d = alpha - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.normal();
    const double root = 1 + c * x;
    const double v = root * root * root;
    const double u = 1 - rng.uniform();
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

}  // namespace

ImageRegion random_region(const AugmentConfig& config, int64_t height, int64_t width, int64_t size,
                          Rng& rng) {
  ImageRegion region = whole_image(height, width);
  if (config.crop == CropType::kResized &&
      !draw_rectangle(height, width, config.scale, config.ratio, rng, region)) {
    region = allowed_middle(height, width, config.ratio);
  }
  region.least_height = region.least_width = size;
  return region;
}

ImageRegion center_region(double share, int64_t height, int64_t width, int64_t size) {
  const auto side =
      std::max<int64_t>(1, std::llround(share * static_cast<double>(std::min(height, width))));
  ImageRegion region = middle(height, width, side, side);
  region.least_height = region.least_width = size;
  return region;
}

void augment(Image& image, const AugmentConfig& config, Rng& rng) {
  if (config.crop == CropType::kPadded) {
    crop_padded(image, config.padding, rng);
  }
  if (config.flip > 0 && rng.uniform() < config.flip) {
    flip_horizontally(image);
  }
  if (const auto& changes = config.rand_augment) {
    rand_augment(image, changes->ops, changes->magnitude, rng);
  }
}

void erase(std::span<float> pixels, int64_t size, const AugmentConfig& config, Rng& rng) {
  ImageRegion region;
  if (config.erase == 0 || rng.uniform() >= config.erase ||
      !draw_rectangle(size, size, {0.02, 0.33}, {0.3, 3.3}, rng, region)) {
    return;
  }
  for (size_t at = 0; at < pixels.size(); at += static_cast<size_t>(size * size)) {
    for (int64_t y = region.top; y < region.top + region.height; ++y) {
      std::fill_n(pixels.begin() + static_cast<int64_t>(at) + y * size + region.left, region.width,
                  0.0F);
    }
  }
}

double symmetric_beta(double alpha, Rng& rng) {
  constexpr double kSmall = 0.1;  // below it draws of a gamma round to 0, but not their logarithms
  if (alpha >= kSmall) {
    const double a = gamma(alpha, rng);
    const double b = gamma(alpha, rng);
    return a / (a + b);
  }
  const double u = 1 - rng.uniform();
  const double a = gamma(alpha + 1, rng);
  const double v = 1 - rng.uniform();
  const double b = gamma(alpha + 1, rng);
  return 1 / (1 + std::exp(std::log(b / a) + std::log(v / u) / alpha));
}

float mix_pictures(std::span<float> pixels, std::span<const float> other, int64_t size,
                   const AugmentConfig& config, Rng& rng) {
  const bool cuts = config.cutmix > 0 && (config.mixup == 0 || rng.below(2) == 0);
  const double share = symmetric_beta(cuts ? config.cutmix : config.mixup, rng);
  if (!cuts) {
    const auto mine = static_cast<float>(share);
    std::transform(pixels.begin(), pixels.end(), other.begin(), pixels.begin(),
                   [mine](float x, float y) { return mine * x + (1 - mine) * y; });
    return mine;
  }
  const double half = 0.5 * static_cast<double>(size) * std::sqrt(1 - share);
  const auto cut_line = [&] {
    const double centre = rng.uniform(0, static_cast<double>(size));
    const auto at = [&](double x) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(x)), 0, size);
    };
    return std::pair(at(centre - half), at(centre + half));
  };
  const auto [top, bottom] = cut_line();
  const auto [left, right] = cut_line();
  const int64_t area = size * size;
  for (int64_t at = 0; at < static_cast<int64_t>(pixels.size()); at += area) {
    for (int64_t y = top; y < bottom; ++y) {
      const int64_t begin = at + y * size + left;
      std::copy_n(other.begin() + begin, right - left, pixels.begin() + begin);
    }
  }
  return 1 - static_cast<float>((bottom - top) * (right - left)) / static_cast<float>(area);
}

}  // namespace mstrain
