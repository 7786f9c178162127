#include "core/data/image_resize.h"

#include <emmintrin.h>

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

// Row `y` of the result before its columns are summed up.
void sum_rows(const Image& image, const Taps& taps, int64_t y, std::vector<float>& out) {
  const int64_t count = image.width * image.channels;
  const float* const weights = taps.weights.data() + y * taps.most;
  const uint8_t* const first = image.row(taps.first[static_cast<size_t>(y)]);
  const __m128i zero = _mm_setzero_si128();
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128 sums[4] = {_mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps()};
    for (int64_t k = 0; k < taps.most; ++k) {
      const __m128 weight = _mm_set1_ps(weights[k]);
      const __m128i bytes =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(first + k * count + i));
      const __m128i halves[] = {_mm_unpacklo_epi8(bytes, zero), _mm_unpackhi_epi8(bytes, zero)};
      for (int quarter = 0; quarter < 4; ++quarter) {
        const __m128i half = halves[quarter / 2];
        const __m128i four =
            quarter % 2 == 0 ? _mm_unpacklo_epi16(half, zero) : _mm_unpackhi_epi16(half, zero);
        sums[quarter] = _mm_add_ps(sums[quarter], _mm_mul_ps(weight, _mm_cvtepi32_ps(four)));
      }
    }
    for (int quarter = 0; quarter < 4; ++quarter) {
      _mm_storeu_ps(out.data() + i + 4 * quarter, sums[quarter]);
    }
  }
  for (; i < count; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < taps.most; ++k) {
      sum += weights[k] * static_cast<float>(first[k * count + i]);
    }
    out[static_cast<size_t>(i)] = sum;
  }
}

// Four channels at once, of which a pixel has one or three: `row` has some elements more than pixels.
template <int kChannels>
void sum_columns(const std::vector<float>& row, const Taps& taps, int64_t width, uint8_t* out) {
  for (int64_t x = 0; x < width; ++x) {
    const float* const weights = taps.weights.data() + x * taps.most;
    const float* const from = row.data() + taps.first[static_cast<size_t>(x)] * kChannels;
    __m128 sums = _mm_setzero_ps();
    for (int64_t k = 0; k < taps.most; ++k) {
      sums =
          _mm_add_ps(sums, _mm_mul_ps(_mm_set1_ps(weights[k]), _mm_loadu_ps(from + k * kChannels)));
    }
    const __m128i words = _mm_packs_epi32(_mm_cvtps_epi32(sums), _mm_setzero_si128());
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(out + x * kChannels, &bytes, kChannels);
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
  std::vector<float> row(static_cast<size_t>(image.width * image.channels) + 4);
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
