#include "core/data/rand_augment.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace mstrain {
namespace {

using Table = std::array<uint8_t, 256>;

uint8_t cut_to_byte(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F)); }

void look_up(Image& image, const Table& table) {
  for (uint8_t& pixel : image.pixels) {
    pixel = table[pixel];
  }
}

// Each channel by a table that `make` gives for its histogram.
template <class Make>
void look_up_channels(Image& image, const Make& make) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t c = 0; c < channels; ++c) {
    std::array<int64_t, 256> histogram{};
    for (size_t i = c; i < image.pixels.size(); i += channels) {
      ++histogram[image.pixels[i]];
    }
    const Table table = make(histogram);
    for (size_t i = c; i < image.pixels.size(); i += channels) {
      image.pixels[i] = table[image.pixels[i]];
    }
  }
}

float grey_of(const uint8_t* rgb) {
  return std::floor(0.2989F * static_cast<float>(rgb[0]) + 0.587F * static_cast<float>(rgb[1]) +
                    0.114F * static_cast<float>(rgb[2]));
}

// factor x + (1 - factor) other, for every byte x.
Table blend_table(float factor, float other) {
  Table table{};
  for (size_t x = 0; x < table.size(); ++x) {
    table[x] = cut_to_byte(factor * static_cast<float>(x) + (1 - factor) * other);
  }
  return table;
}

// Pixel (x, y) comes from (a x + b y + c, d x + e y + f), about the middle of the picture; from outside it is black.
struct Affine {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;
};

// To the nearest, the even one of two.
int nearest(double x) { return _mm_cvtsd_si32(_mm_set_sd(x)); }

template <int kChannels>
Image moved(const Image& image, const Affine& from) {
  Image out(image.height, image.width, kChannels);
  const double middle_x = 0.5 * static_cast<double>(image.width - 1);
  const double middle_y = 0.5 * static_cast<double>(image.height - 1);
  const auto width = static_cast<uint32_t>(image.width);
  const auto height = static_cast<uint32_t>(image.height);
  uint8_t* to = out.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const double dy = static_cast<double>(y) - middle_y;
    const double row_x = from.b * dy + from.c + middle_x;
    const double row_y = from.e * dy + from.f + middle_y;
    for (int64_t x = 0; x < image.width; ++x, to += kChannels) {
      const double dx = static_cast<double>(x) - middle_x;
      const auto at_x = static_cast<uint32_t>(nearest(from.a * dx + row_x));
      const auto at_y = static_cast<uint32_t>(nearest(from.d * dx + row_y));
      if (at_x < width && at_y < height) {  // no negative one is
        const uint8_t* const pixel = image.row(at_y) + int64_t{at_x} * kChannels;
        for (int c = 0; c < kChannels; ++c) {
          to[c] = pixel[c];
        }
      }
    }
  }
  return out;
}

void move(Image& image, const Affine& from) {
  image = image.channels == 1 ? moved<1>(image, from) : moved<3>(image, from);
}

void identity(Image&, double, double) {}

// Shearing is about the upper left corner.
void shear_x(Image& image, double strength, double sign) {
  const double by = 0.3 * strength * sign;
  move(image, {.b = by, .c = by * 0.5 * static_cast<double>(image.height)});
}
void shear_y(Image& image, double strength, double sign) {
  const double by = 0.3 * strength * sign;
  move(image, {.d = by, .f = by * 0.5 * static_cast<double>(image.width)});
}
double shift(int64_t size, double strength, double sign) {
  return std::trunc(150.0 / 331.0 * static_cast<double>(size) * strength) * sign;
}
void translate_x(Image& image, double strength, double sign) {
  move(image, {.c = -shift(image.width, strength, sign)});
}
void translate_y(Image& image, double strength, double sign) {
  move(image, {.f = -shift(image.height, strength, sign)});
}
void rotate(Image& image, double strength, double sign) {
  const double angle = 30 * strength * sign * std::numbers::pi / 180;
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  move(image, {.a = c, .b = -s, .d = s, .e = c});
}

float factor_of(double strength, double sign) {
  return static_cast<float>(1 + 0.9 * strength * sign);
}
void brightness(Image& image, double strength, double sign) {
  look_up(image, blend_table(factor_of(strength, sign), 0));
}
void contrast(Image& image, double strength, double sign) {
  double sum = 0;
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i < image.pixels.size(); i += channels) {
    sum += channels == 3 ? grey_of(&image.pixels[i]) : image.pixels[i];
  }
  const double mean = sum / static_cast<double>(image.height * image.width);
  look_up(image, blend_table(factor_of(strength, sign), static_cast<float>(mean)));
}
void color(Image& image, double strength, double sign) {
  if (image.channels != 3) {
    return;
  }
  const float factor = factor_of(strength, sign);
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    uint8_t* const rgb = &image.pixels[i];
    const float grey = (1 - factor) * grey_of(rgb);
    for (int c = 0; c < 3; ++c) {
      rgb[c] = cut_to_byte(factor * static_cast<float>(rgb[c]) + grey);
    }
  }
}
void sharpness(Image& image, double strength, double sign) {
  if (image.height <= 2 || image.width <= 2) {
    return;
  }
  const float factor = factor_of(strength, sign);
  const Image old = image;
  const int64_t n = image.channels;
  for (int64_t y = 1; y + 1 < image.height; ++y) {
    const uint8_t* const rows[] = {old.row(y - 1), old.row(y), old.row(y + 1)};
    uint8_t* const to = image.row(y);
    for (int64_t i = n; i < (image.width - 1) * n; ++i) {
      int sum = 4 * rows[1][i];
      for (const uint8_t* row : rows) {
        sum += row[i - n] + row[i] + row[i + n];
      }
      const float soft = static_cast<float>((2 * sum + 13) / 26);  // a thirteenth, rounded
      to[i] = cut_to_byte(factor * static_cast<float>(rows[1][i]) + (1 - factor) * soft);
    }
  }
}
void posterize(Image& image, double strength, double) {
  const int bits = 8 - static_cast<int>(std::nearbyint(4 * strength));
  const int mask = 256 - (1 << (8 - bits));
  Table table{};
  for (size_t x = 0; x < table.size(); ++x) {
    table[x] = static_cast<uint8_t>(static_cast<int>(x) & mask);
  }
  look_up(image, table);
}
void solarize(Image& image, double strength, double) {
  const double threshold = 255 * (1 - strength);
  Table table{};
  for (size_t x = 0; x < table.size(); ++x) {
    table[x] = static_cast<uint8_t>(static_cast<double>(x) >= threshold ? 255 - x : x);
  }
  look_up(image, table);
}
// The darkest pixel becomes black, the lightest white.
void auto_contrast(Image& image, double, double) {
  look_up_channels(image, [](const std::array<int64_t, 256>& histogram) {
    const auto used = [](int64_t count) { return count > 0; };
    const auto low = std::find_if(histogram.begin(), histogram.end(), used) - histogram.begin();
    const auto high =
        histogram.rend() - std::find_if(histogram.rbegin(), histogram.rend(), used) - 1;
    Table table{};
    for (size_t x = 0; x < table.size(); ++x) {
      const float above = static_cast<float>(x) - static_cast<float>(low);
      table[x] = low == high ? static_cast<uint8_t>(x)
                             : cut_to_byte(above * (255.0F / static_cast<float>(high - low)));
    }
    return table;
  });
}
// All values become equally frequent, as far as that goes.
void equalize(Image& image, double, double) {
  look_up_channels(image, [](const std::array<int64_t, 256>& histogram) {
    int64_t all = 0;
    int64_t last = 0;
    for (const int64_t count : histogram) {
      all += count;
      last = count > 0 ? count : last;
    }
    const int64_t step = (all - last) / 255;
    Table table{};
    int64_t below = step / 2;
    for (size_t x = 0; x < table.size(); ++x) {
      table[x] = step == 0 ? static_cast<uint8_t>(x)
                           : static_cast<uint8_t>(std::min<int64_t>(below / step, 255));
      below += histogram[x];
    }
    return table;
  });
}

constexpr PictureChange kChanges[] = {{"Identity", identity},
                                      {"ShearX", shear_x},
                                      {"ShearY", shear_y},
                                      {"TranslateX", translate_x},
                                      {"TranslateY", translate_y},
                                      {"Rotate", rotate},
                                      {"Brightness", brightness},
                                      {"Color", color},
                                      {"Contrast", contrast},
                                      {"Sharpness", sharpness},
                                      {"Posterize", posterize},
                                      {"Solarize", solarize},
                                      {"AutoContrast", auto_contrast},
                                      {"Equalize", equalize}};

}  // namespace

std::span<const PictureChange> picture_changes() { return kChanges; }

void rand_augment(Image& image, int64_t count, double magnitude, Rng& rng) {
  constexpr double kGreatest = 30;
  for (int64_t i = 0; i < count; ++i) {
    const PictureChange& change = kChanges[rng.below(std::size(kChanges))];
    const double sign = rng.below(2) == 0 ? 1 : -1;
    change.apply(image, magnitude / kGreatest, sign);
  }
}

}  // namespace mstrain
