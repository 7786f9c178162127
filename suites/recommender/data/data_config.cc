#include "suites/recommender/data/data_config.h"

#include <algorithm>
#include <cmath>

namespace mstrain::recommender {

OpenedSamples open_samples(FileSystem&, const DataConfig& config, const YamlNode&, int) {
  const auto all = std::make_shared<const SyntheticSamples>(config.synthetic);
  const int64_t count = all->samples();
  const auto kept =
      std::clamp<int64_t>(std::llround(config.split * static_cast<double>(count)), 1, count);
  return {part_of(all, 0, kept), kept == count ? nullptr : part_of(all, kept, count - kept)};
}

}  // namespace mstrain::recommender
