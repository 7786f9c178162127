#include "core/data/image_config.h"

#include "core/base/error.h"

namespace mstrain {

void check_image_data_config(const ImageDataConfig& config, int64_t channels,
                             const YamlNode& tree) {
  const auto check_count = [&](const char* key, size_t count) {
    if (count != 1 && static_cast<int64_t>(count) != channels) {
      config_fail(
          tree, key,
          fmt::format("{} numbers; expected 1, or one for each of {} channels", count, channels));
    }
  };
  check_count("data.mean", config.mean.size());
  check_count("data.std", config.std.size());
  const auto check_order = [&](const char* key, const std::array<double, 2>& range) {
    if (range[0] > range[1]) {
      config_fail(tree, key, fmt::format("{} is more than {}", range[0], range[1]));
    }
  };
  check_order("data.augment.scale", config.augment.scale);
  check_order("data.augment.ratio", config.augment.ratio);
}

}  // namespace mstrain
