#include "suites/recommender/data/data_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/corpus_sources.h"
#include "suites/recommender/data/prepared.h"

namespace mstrain::recommender {
namespace {

constexpr int kCriteoNumbers = 13, kCriteoValues = 26;

// The folder, which must be of this configuration. Throws ConfigError.
Prepared prepared_for(FileSystem& files, const DataConfig& config, const YamlNode& tree) {
  Prepared prepared = read_prepared(files, *config.prepared);
  if (prepared.columns != columns_key(config)) {
    config_fail(tree, "data.prepared",
                fmt::format("{} was made with other data.format, data.csv or data.ids; preprocess "
                            "into another folder",
                            *config.prepared));
  }
  return prepared;
}

}  // namespace

CsvConfig text_columns_of(const DataConfig& config) {
  if (config.format != DataFormat::kCriteoTsv) {
    return config.csv;
  }
  CsvConfig csv;
  csv.separator = "\t";
  csv.header = false;
  csv.numeric_scale = config.csv.numeric_scale;
  csv.columns.push_back(csv.label);
  for (int i = 1; i <= kCriteoNumbers; ++i) {
    csv.numeric.push_back(fmt::format("I{}", i));
  }
  for (int i = 1; i <= kCriteoValues; ++i) {
    csv.categorical.push_back(fmt::format("C{}", i));
  }
  csv.columns.insert(csv.columns.end(), csv.numeric.begin(), csv.numeric.end());
  csv.columns.insert(csv.columns.end(), csv.categorical.begin(), csv.categorical.end());
  return csv;
}

std::string columns_key(const DataConfig& config) {
  return to_string(hash_bytes(to_flow(write_config(text_columns_of(config))) +
                              to_flow(write_config(config.ids))));
}

OpenedSamples open_samples(FileSystem& files, const DataConfig& config, const YamlNode& tree, int) {
  std::shared_ptr<const SampleSource> all;
  if (config.format == DataFormat::kSynthetic) {
    all = std::make_shared<const SyntheticSamples>(config.synthetic);
  } else if (config.prepared) {
    const Prepared prepared =
        for_key(tree, "data.prepared", [&] { return prepared_for(files, config, tree); });
    all = for_key(tree, "data.prepared", [&] { return open_prepared(files, *config.prepared); });
    if (config.valid) {
      return {all, for_key(tree, "data.valid", [&] {
                return read_csv(files, text_columns_of(config), tree, *config.valid,
                                /*needs_labels=*/true,
                                ids_of_prepared(files, *config.prepared, prepared).get(),
                                config.malformed.limit);
              })};
    }
  } else {
    if (!config.train) {
      config_fail(tree, "data.train", "name the file");
    }
    const auto read = [&](const char* key, const std::string& path) {
      return for_key(tree, key, [&] {
        return read_csv(files, text_columns_of(config), tree, path, /*needs_labels=*/true,
                        /*ids=*/nullptr, config.malformed.limit);
      });
    };
    all = read("data.train", *config.train);
    if (config.valid) {
      return {all, read("data.valid", *config.valid)};
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
  const std::shared_ptr<const FieldIds> ids =
      config.prepared ? ids_of_prepared(files, *config.prepared, prepared_for(files, config, tree))
                      : nullptr;
  return read_csv(files, text_columns_of(config), tree, path, /*needs_labels=*/false, ids.get());
}

}  // namespace mstrain::recommender
