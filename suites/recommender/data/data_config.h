// The section `data` of a recommender, and the samples that it names.
#pragma once

#include <memory>

#include "core/base/config.h"
#include "core/base/files.h"
#include "suites/recommender/data/csv.h"
#include "suites/recommender/data/field_ids.h"
#include "suites/recommender/data/prepared.h"
#include "suites/recommender/data/samples.h"
#include "suites/recommender/data/synthetic.h"

namespace mstrain::recommender {

enum class DataFormat { kSynthetic, kCsv, kCriteoTsv };

struct MalformedConfig {
  int64_t limit = 0;

  template <class V>
  void fields(V& v) {
    v("limit", limit, "so many lines of a file are left out at most", rule::at_least(0));
  }
};

struct DataConfig {
  DataFormat format = DataFormat::kSynthetic;
  SyntheticConfig synthetic;
  CsvConfig csv;
  IdsConfig ids;
  MalformedConfig malformed;
  std::optional<std::string> train, valid, prepared;
  std::optional<std::string> group_by;
  double split = 0.9;
  bool shuffle = true;

  template <class V>
  void fields(V& v) {
    v("format", format, "where samples come from",
      rule::one_of({"synthetic", "csv", "criteo_tsv"}));
    v("train", train,
      "file of samples, or for preprocessing a pattern of several, plain or gzipped; null: there "
      "is none, they are synthetic",
      rule::path());
    v("prepared", prepared,
      "folder that mstrain preprocess makes of train, and that training reads in its place; null: "
      "text is read into memory, with hashes for ids",
      rule::path());
    v("valid", valid, "file of samples to evaluate on; null: the last ones of train", rule::path());
    v("group_by", group_by,
      "field of one id: evaluations also rank the samples of each of its values (GAUC)");
    v("csv", csv, "columns of text");
    v("ids", ids, "what the values of fields are called");
    v("malformed", malformed, "lines that are no samples");
    v("synthetic", synthetic, "samples of a known model");
    v("split", split, "share of the samples, from the first on, that is trained on",
      rule::above(0).at_most(1));
    v("shuffle", shuffle, "each epoch has an order of its own");
  }
};

// Throws ConfigError for keys that have no effect beside others, and for a label among the features.
void check_data_config(const DataConfig& config, const YamlNode& tree);

// How lines are read: data.csv, or Criteo's label, 13 integers and 26 values, apart by tabs, without a header.
CsvConfig text_columns_of(const DataConfig& config);
// Equal where lines are read alike and values called alike.
std::string columns_key(const DataConfig& config);
// What it is made of, as configured.
std::vector<std::pair<std::string, std::string>> keys_of_columns(const DataConfig& config);
// Of a folder with another columns_key(), for people: "with data.ids.min_count: 4, here 10".
std::string difference_of_keys(const Prepared& there, const DataConfig& config);

struct OpenedSamples {
  std::shared_ptr<const SampleSource> train, valid;  // valid is null where nothing is held out
};

// Throws IoError and ConfigError.
OpenedSamples open_samples(FileSystem& files, const DataConfig& config, const YamlNode& tree,
                           int threads);

// The same features of another file, which may have no labels: they are -1 then. Throws IoError, and ConfigError where samples are of no file.
std::shared_ptr<const SampleSource> open_for_scoring(FileSystem& files, const DataConfig& config,
                                                     const YamlNode& tree, const std::string& path,
                                                     int threads);

}  // namespace mstrain::recommender
