// Samples from text: a line each, columns by name. Values of categorical columns, crosses of them and buckets of numbers are ids by their
// hash, so that nothing need be counted before training and any other file has the same features. All of it is held in memory.
#pragma once

#include <memory>

#include "core/base/config.h"
#include "core/base/files.h"
#include "suites/recommender/data/samples.h"

namespace mstrain::recommender {

struct CrossConfig {
  std::vector<std::string> of;

  template <class V>
  void fields(V& v) {
    v("of", of, "categorical and bucketised columns whose values make one id together",
      rule::required());
  }
};

struct BucketConfig {
  std::string column;
  std::vector<double> boundaries;

  std::string name() const { return column + "_bucket"; }

  template <class V>
  void fields(V& v) {
    v("column", column, "of numbers", rule::required());
    v("boundaries", boundaries,
      "ascending: a number is in the bucket that begins at the last one that it reaches",
      rule::required());
  }
};

struct BagConfig {
  std::string column;
  std::string separator = "|";
  embedding_cache::Pooling pooling = embedding_cache::Pooling::kMean;

  template <class V>
  void fields(V& v) {
    v("column", column, "whose text holds any number of values", rule::required());
    v("separator", separator, "one character between them");
    v("pooling", pooling, "of their vectors", rule::one_of({"sum", "mean", "max"}));
  }
};

class FieldIds;

enum class NumericScale { kNone, kLog1p };

struct CsvConfig {
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> columns;
  std::string label = "label";
  std::string positive = "1";
  std::optional<std::string> negative;
  std::optional<std::string> fixed_negative;  // by the format, in place of a key
  std::vector<std::string> numeric;
  NumericScale numeric_scale = NumericScale::kLog1p;
  std::vector<std::string> categorical;
  std::vector<CrossConfig> crosses;
  std::vector<BucketConfig> buckets;
  std::vector<BagConfig> bags;

  template <class V>
  void fields(V& v) {
    v("separator", separator, "one character between columns");
    v("header", header, "the first line names the columns");
    v("columns", columns, "their names, where there is no header");
    v("label", label, "column of what is to be told");
    v("positive", positive, "what it says of a sample of label 1");
    v("negative", negative,
      "what it says of a sample of label 0, * for anything else; null: the one other value that "
      "the "
      "data have");
    v("numeric", numeric, "columns of numbers that enter as such; empty ones are 0");
    v("numeric_scale", numeric_scale, "what is done to them: log(1 + x), of negative ones 0",
      rule::one_of({"none", "log1p"}));
    v("categorical", categorical, "columns whose values are ids");
    v("crosses", crosses, "ids of several values together");
    v("buckets", buckets, "columns of numbers whose buckets are ids");
    v("bags", bags, "columns of several values, each of which is an id");
  }
};

struct CsvReading {
  bool needs_labels = true;       // false: there may be no column of them, and they are -1 then
  const FieldIds* ids = nullptr;  // what values are called; null: by their hashes of 64 bits
  // The label beside data.csv.positive of files read before; null or nothing: that of this file, which is then left there.
  std::optional<std::string>* other_label = nullptr;
  int64_t malformed = 0;  // so many lines that are no samples are left out, with a warning
  int threads = 1;        // that read pieces of the file
  uint64_t piece_bytes = uint64_t{4} << 20;
};

// Throws IoError naming file and line, ConfigError naming the key, for a column that is not there.
std::shared_ptr<const SampleSource> read_csv(FileSystem& files, const CsvConfig& config,
                                             const YamlNode& tree, const std::string& path,
                                             const CsvReading& how = {});

}  // namespace mstrain::recommender
