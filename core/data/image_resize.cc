#include "core/data/image_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mstrain {
namespace {

// For each place of a line of `to`, which places of one of `from` it sums up, and their weights.
struct Taps {
  std::vector<int64_t> first;
  int64_t most = 0;            // how many each has; those that it does not need weigh 0
  std::vector<float> weights;  // [to, most]

  Taps(int64_t from, int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double reach = std::max(scale, 1.0);
    most = std::min(from, static_cast<int64_t>(std::ceil(2 * reach)) + 1);
    weights.resize(static_cast<size_t>(to * most));
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * scale;
      const auto begin = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre - reach + 0.5)),
                                             0, from - most);
      first.push_back(begin);
      double sum = 0;
      std::vector<double> row(static_cast<size_t>(most));
      for (int64_t k = 0; k < most; ++k) {
        const double distance = std::abs(static_cast<double>(begin + k) + 0.5 - centre) / reach;
        row[static_cast<size_t>(k)] = std::max(0.0, 1 - distance);
        sum += row[static_cast<size_t>(k)];
      }
      for (int64_t k = 0; k < most; ++k) {
        weights[static_cast<size_t>(i * most + k)] =
            static_cast<float>(row[static_cast<size_t>(k)] / sum);
      }
    }
  }
};

uint8_t rounded(float value) {
  return static_cast<uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

// Row `y` of the result before its columns are summed up.
void sum_rows(const Image& image, const Taps& taps, int64_t y, std::vector<float>& out) {
  const auto count = static_cast<int64_t>(out.size());
  std::fill(out.begin(), out.end(), 0.0F);
  for (int64_t k = 0; k < taps.most; ++k) {
    const float weight = taps.weights[static_cast<size_t>(y * taps.most + k)];
    const uint8_t* const row = image.row(taps.first[static_cast<size_t>(y)] + k);
    if (weight != 0) {
      for (int64_t i = 0; i < count; ++i) {
        out[static_cast<size_t>(i)] += weight * static_cast<float>(row[i]);
      }
    }
  }
}

template <int kChannels>
void sum_columns(const std::vector<float>& row, const Taps& taps, int64_t width, uint8_t* out) {
  for (int64_t x = 0; x < width; ++x) {
    const float* weights = taps.weights.data() + x * taps.most;
    const float* from = row.data() + taps.first[static_cast<size_t>(x)] * kChannels;
    float sums[kChannels] = {};
    for (int64_t k = 0; k < taps.most; ++k) {
      for (int c = 0; c < kChannels; ++c) {
        sums[c] += weights[k] * from[k * kChannels + c];
      }
    }
    for (int c = 0; c < kChannels; ++c) {
      out[x * kChannels + c] = rounded(sums[c]);
    }
  }
}

}  // namespace

Image resized(const Image& image, int64_t height, int64_t width) {
  if (image.height == height && image.width == width) {
    return image;
  }
  const Taps down(image.height, height);
  const Taps across(image.width, width);
  Image out(height, width, image.channels);
  std::vector<float> row(static_cast<size_t>(image.width * image.channels));
  for (int64_t y = 0; y < height; ++y) {
    sum_rows(image, down, y, row);
    if (image.channels == 1) {
      sum_columns<1>(row, across, width, out.row(y));
    } else {
      sum_columns<3>(row, across, width, out.row(y));
    }
  }
  return out;
}

void flip_horizontally(Image& image) {
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* const row = image.row(y);
    for (int64_t x = 0; x < image.width / 2; ++x) {
      std::swap_ranges(row + x * image.channels, row + (x + 1) * image.channels,
                       row + (image.width - 1 - x) * image.channels);
    }
  }
}

}  // namespace mstrain
