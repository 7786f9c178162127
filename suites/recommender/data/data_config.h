// The section `data` of a recommender, and the samples that it names.
#pragma once

#include <memory>

#include "core/base/config.h"
#include "core/base/files.h"
#include "suites/recommender/data/csv.h"
#include "suites/recommender/data/samples.h"
#include "suites/recommender/data/synthetic.h"

namespace mstrain::recommender {

enum class DataFormat { kSynthetic, kCsv };

struct DataConfig {
  DataFormat format = DataFormat::kSynthetic;
  SyntheticConfig synthetic;
  CsvConfig csv;
  std::optional<std::string> train, valid;
  double split = 0.9;
  bool shuffle = true;

  template <class V>
  void fields(V& v) {
    v("format", format, "where samples come from", rule::one_of({"synthetic", "csv"}));
    v("train", train, "file of samples; null: there is none, they are synthetic", rule::path());
    v("valid", valid, "file of samples to evaluate on; null: the last ones of train", rule::path());
    v("csv", csv, "columns of text");
    v("synthetic", synthetic, "samples of a known model");
    v("split", split, "share of the samples, from the first on, that is trained on",
      rule::above(0).at_most(1));
    v("shuffle", shuffle, "each epoch has an order of its own");
  }
};

struct OpenedSamples {
  std::shared_ptr<const SampleSource> train, valid;  // valid is null where nothing is held out
};

// Throws IoError and ConfigError.
OpenedSamples open_samples(FileSystem& files, const DataConfig& config, const YamlNode& tree,
                           int threads);

// The same features of another file, which may have no labels: they are -1 then. Throws IoError, and ConfigError where samples are of no file.
std::shared_ptr<const SampleSource> open_for_scoring(FileSystem& files, const DataConfig& config,
                                                     const YamlNode& tree, const std::string& path);

}  // namespace mstrain::recommender
