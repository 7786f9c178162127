#include "core/ops/weight_code.h"

#include <algorithm>
#include <cmath>

namespace mstrain {
namespace {

constexpr std::string_view kNames[kNumWeightCodes] = {"bf16", "int8", "nf4"};

// The nearest scale; x is not negative.
template <class Bits, int shift, uint32_t base>
Bits nearest_scale(float x) {
  constexpr int64_t kMost = (int64_t{1} << (8 * sizeof(Bits))) - 1;
  const int64_t bits = int64_t{std::bit_cast<uint32_t>(x)} - base + (int64_t{1} << (shift - 1));
  return static_cast<Bits>(std::clamp<int64_t>(bits >> shift, 0, kMost));
}
constexpr auto to_wide = nearest_scale<uint16_t, kWideScaleShift, kWideScaleBase>;
constexpr auto to_narrow = nearest_scale<uint8_t, kNarrowScaleShift, kNarrowScaleBase>;

// NaN where a number is.
float largest_magnitude(const float* x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float magnitude = std::abs(x[i]);
    most = magnitude <= most ? most : magnitude;
    if (std::isnan(magnitude)) {
      return magnitude;
    }
  }
  return most;
}

template <class T>
T load_as(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store_as(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(T));
}

struct Row {
  WeightCode code;
  int64_t width;

  int64_t blocks() const { return code_blocks_of(code, width); }
  int64_t block() const { return code_block(code); }
  int64_t length(int64_t b) const { return std::min(block(), width - b * block()); }
  // Where scales of blocks, and of groups, begin.
  int64_t scales() const { return blocks() * code_bytes(code); }
  int64_t group_scales() const { return scales() + blocks(); }
};

void encode_bf16(const float* x, int64_t width, uint8_t* to) {
  for (int64_t i = 0; i < width; ++i) {
    store_as(BFloat16(x[i]).bits, to + 2 * i);
  }
}

void encode_int8(const Row& row, const float* x, uint8_t* to) {
  for (int64_t b = 0; b < row.blocks(); ++b) {
    const float* const from = x + b * row.block();
    const uint16_t scale = to_wide(largest_magnitude(from, row.length(b)) * (128.0F / 127.0F));
    store_as(scale, to + row.scales() + 2 * b);
    const float steps = 128.0F / wide_scale(scale);
    for (int64_t i = 0; i < row.length(b); ++i) {
      const float code = std::clamp(std::nearbyint(from[i] * steps), -127.0F, 127.0F);
      to[b * row.block() + i] = static_cast<uint8_t>(static_cast<int8_t>(code));
    }
  }
}

uint8_t nearest_level(float x) {
  int code = 0;
  for (int step = 8; step > 0; step /= 2) {
    const int next = code + step;
    code = x > (kNf4Levels[next - 1] + kNf4Levels[next]) / 2 ? next : code;
  }
  return static_cast<uint8_t>(code);
}

void encode_nf4(const Row& row, const float* x, uint8_t* to) {
  for (int64_t first = 0; first < row.blocks(); first += kScaleGroup) {
    const int64_t end = std::min(first + kScaleGroup, row.blocks());
    const int64_t numbers = std::min(end * row.block(), row.width) - first * row.block();
    const uint16_t group =
        to_wide(largest_magnitude(x + first * row.block(), numbers) / narrow_scale(0xff));
    store_as(group, to + row.group_scales() + first / kScaleGroup * 2);
    for (int64_t b = first; b < end; ++b) {
      const float* const from = x + b * row.block();
      const uint8_t scale = to_narrow(largest_magnitude(from, row.length(b)) / wide_scale(group));
      to[row.scales() + b] = scale;
      const float steps = 1 / (narrow_scale(scale) * wide_scale(group));
      for (int64_t i = 0; i < row.length(b); ++i) {
        const int code = nearest_level(from[i] * steps);
        to[b * kNf4Half + i % kNf4Half] |= static_cast<uint8_t>(i < kNf4Half ? code : code << 4);
      }
    }
  }
}

}  // namespace

std::string_view name_of(WeightCode code) { return kNames[static_cast<int>(code)]; }

std::optional<WeightCode> parse_weight_code(std::string_view name) {
  for (const WeightCode code : kAllWeightCodes) {
    if (name_of(code) == name) {
      return code;
    }
  }
  return std::nullopt;
}

float decoded_number(WeightCode code, const uint8_t* bytes, int64_t width, int64_t i) {
  const Row row{code, width};
  const int64_t b = i / row.block();
  const int64_t at = i % row.block();
  switch (code) {
    case WeightCode::kBf16: {
      BFloat16 number;
      number.bits = load_as<uint16_t>(bytes + 2 * i);
      return number;
    }
    case WeightCode::kInt8:
      return static_cast<float>(static_cast<int8_t>(bytes[i])) / 128.0F *
             wide_scale(load_as<uint16_t>(bytes + row.scales() + 2 * b));
    default: break;
  }
  const uint8_t pair = bytes[b * kNf4Half + at % kNf4Half];
  const float scale =
      narrow_scale(bytes[row.scales() + b]) *
      wide_scale(load_as<uint16_t>(bytes + row.group_scales() + b / kScaleGroup * 2));
  return kNf4Levels[at < kNf4Half ? pair & 15 : pair >> 4] * scale;
}

bool encode_row(WeightCode code, const float* numbers, int64_t width, uint8_t* row) {
  std::memset(row, 0, static_cast<size_t>(code_row_bytes(code, width)));
  if (code == WeightCode::kBf16) {
    encode_bf16(numbers, width, row);
    return true;
  }
  if (!(largest_magnitude(numbers, width) <= kLargestCoded)) {
    return false;
  }
  code == WeightCode::kInt8 ? encode_int8({code, width}, numbers, row)
                            : encode_nf4({code, width}, numbers, row);
  return true;
}

}  // namespace mstrain
