#include "core/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// The pairs between which YaRN blends.
struct Ramp {
  double low, high;
};
Ramp yarn_ramp(const RopeConfig& config, int64_t head_dim, double original) {
  // The pair, a fraction, that turns so often in the original length.
  const auto pair = [&](double turns) {
    return static_cast<double>(head_dim) * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  double low = pair(config.beta_fast);
  double high = pair(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  return {low, low == high ? high + 0.001 : high};
}

// Where x lies between low and high, which give 0 and 1.
Tensor share(const Tensor& x, double low, double high) {
  return clip((x - low) * (1 / (high - low)), 0, 1);
}

// 0, 1, … of the pairs of a head.
Tensor pairs(int64_t head_dim, Dtype dtype) { return iota({head_dim / 2}, 0, dtype); }

// By how much the base has grown for sequences of the given lengths: [b, 1, pairs].
Tensor growth(const RopeConfig& config, int64_t head_dim, int64_t max_positions,
              const Tensor& lengths_b, Dtype dtype) {
  const auto most = static_cast<double>(max_positions);
  const Tensor length = maximum(cast(lengths_b, dtype), most);
  const Tensor scale = length * (config.factor / most) - (config.factor - 1);
  const Tensor log_b11 = reshape(log(scale), {lengths_b.dim(0), 1, 1});
  return exp(log_b11 * (pairs(head_dim, dtype) * (-2.0 / static_cast<double>(head_dim - 2))));
}

}  // namespace

std::string_view name_of(RopeType type) {
  constexpr std::string_view kNames[] = {"default", "linear", "dynamic", "llama3", "yarn"};
  return kNames[static_cast<size_t>(type)];
}

void check_rope_config(const RopeConfig& config, const std::string& path, int64_t head_dim,
                       const YamlNode& tree) {
  const RopeConfig plain;
  const auto belongs = [&](const char* key, bool is_default,
                           std::initializer_list<RopeType> types) {
    if (!is_default && std::find(types.begin(), types.end(), config.type) == types.end()) {
      config_fail(tree, path + "." + key,
                  fmt::format("means nothing to the type {}", name_of(config.type)));
    }
  };
  using enum RopeType;
  belongs("factor", config.factor == plain.factor, {kLinear, kDynamic, kLlama3, kYarn});
  belongs("original_max_position_embeddings", !config.original_max_position_embeddings,
          {kLlama3, kYarn});
  belongs("low_freq_factor", config.low_freq_factor == plain.low_freq_factor, {kLlama3});
  belongs("high_freq_factor", config.high_freq_factor == plain.high_freq_factor, {kLlama3});
  belongs("beta_fast", config.beta_fast == plain.beta_fast, {kYarn});
  belongs("beta_slow", config.beta_slow == plain.beta_slow, {kYarn});
  belongs("truncate", config.truncate, {kYarn});
  belongs("attention_factor", !config.attention_factor, {kYarn});
  belongs("mscale", !config.mscale, {kYarn});
  belongs("mscale_all_dim", !config.mscale_all_dim, {kYarn});
  if (config.type == kLlama3 && config.high_freq_factor <= config.low_freq_factor) {
    config_fail(tree, path + ".high_freq_factor",
                fmt::format("{} is not more than low_freq_factor {}", config.high_freq_factor,
                            config.low_freq_factor));
  }
  if (config.type == kYarn && config.theta == 1) {
    config_fail(tree, path + ".theta", "yarn needs frequencies that differ: not 1");
  }
  if (config.type == kDynamic && head_dim == 2) {
    config_fail(tree, path + ".type", "dynamic grows the base of several pairs; heads have one");
  }
}

Tensor rope_frequencies(const RopeConfig& config, int64_t head_dim, int64_t max_positions,
                        Dtype dtype) {
  const auto original =
      static_cast<double>(config.original_max_position_embeddings.value_or(max_positions));
  const Tensor pair = pairs(head_dim, dtype);
  const Tensor plain = exp(pair * (-2 * std::log(config.theta) / static_cast<double>(head_dim)));
  const double stretched = 1 / config.factor;
  switch (config.type) {
    case RopeType::kDefault:
    case RopeType::kDynamic: return plain;
    case RopeType::kLinear: return plain * stretched;
    case RopeType::kLlama3: {
      const Tensor turns = plain * (original / (2 * std::numbers::pi));
      const Tensor kept = share(turns, config.low_freq_factor, config.high_freq_factor);
      return plain * (stretched + (1 - stretched) * kept);
    }
    case RopeType::kYarn: {
      const Ramp ramp = yarn_ramp(config, head_dim, original);
      return plain * (1 - (1 - stretched) * share(pair, ramp.low, ramp.high));
    }
  }
  fail("rope type {} is unknown", static_cast<int>(config.type));
}

double rope_attention_factor(const RopeConfig& config) {
  if (config.type != RopeType::kYarn) {
    return 1;
  }
  if (config.attention_factor) {
    return *config.attention_factor;
  }
  const auto magnitude = [&](double weight) { return 0.1 * weight * std::log(config.factor) + 1; };
  return config.mscale.value_or(0) != 0 && config.mscale_all_dim.value_or(0) != 0
             ? magnitude(*config.mscale) / magnitude(*config.mscale_all_dim)
             : magnitude(1);
}

Rotation rotation(const RopeConfig& config, int64_t head_dim, int64_t max_positions,
                  const Tensor& positions_bt, const Tensor& lengths_b, Dtype dtype) {
  Tensor frequencies = rope_frequencies(config, head_dim, max_positions, dtype);
  if (config.type == RopeType::kDynamic) {
    frequencies = frequencies * growth(config, head_dim, max_positions, lengths_b, dtype);
  }
  const Tensor angles = cast(expand_dims(positions_bt, 2), dtype) * frequencies;
  const double factor = rope_attention_factor(config);
  const auto scaled = [&](const Tensor& x) { return factor == 1 ? x : x * factor; };
  return {scaled(cos(angles)), scaled(sin(angles))};
}

}  // namespace mstrain
