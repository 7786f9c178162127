#include "suites/recommender/data/data_config.h"

#include <algorithm>
#include <cmath>

namespace mstrain::recommender {

OpenedSamples open_samples(FileSystem& files, const DataConfig& config, const YamlNode& tree, int) {
  std::shared_ptr<const SampleSource> all;
  if (config.format == DataFormat::kSynthetic) {
    all = std::make_shared<const SyntheticSamples>(config.synthetic);
  } else {
    if (!config.train) {
      config_fail(tree, "data.train", "name the file");
    }
    all = read_csv(files, config.csv, tree, *config.train);
    if (config.valid) {
      return {all, read_csv(files, config.csv, tree, *config.valid)};
    }
  }
  const int64_t count = all->samples();
  const auto kept =
      std::clamp<int64_t>(std::llround(config.split * static_cast<double>(count)), 1, count);
  return {part_of(all, 0, kept), kept == count ? nullptr : part_of(all, kept, count - kept)};
}

std::shared_ptr<const SampleSource> open_for_scoring(FileSystem& files, const DataConfig& config,
                                                     const YamlNode& tree,
                                                     const std::string& path) {
  if (config.format == DataFormat::kSynthetic) {
    config_fail(tree, "data.format", "the run's samples are synthetic: no file has their features");
  }
  return read_csv(files, config.csv, tree, path, /*needs_labels=*/false);
}

}  // namespace mstrain::recommender
