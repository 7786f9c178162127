// Lines of text as samples: the columns that a configuration names, numbers scaled, values of fields as their hashes of 64 bits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suites/recommender/data/csv.h"

namespace mstrain::recommender {

struct TextSample {
  float label = 0;  // -1 where the text has no labels
  std::vector<float> numeric;
  std::vector<uint64_t> values;  // by field: the hash of the value, or the number of the bucket
};

class TextColumns {
 public:
  // `names`: of all columns; `path` is named in errors. `needs_labels`: false where there may be no column of labels. Throws ConfigError
  // naming the key, for a column that is not there.
  TextColumns(const CsvConfig& config, const YamlNode& tree, const std::vector<std::string>& names,
              const std::string& path, bool needs_labels);

  const SampleSchema& schema() const { return schema_; }
  size_t width() const { return width_; }
  // Any thread, each with a sample of its own. Says what is wrong with the line; empty: nothing is.
  std::string parse(std::string_view line, TextSample& out) const;

 private:
  bool parse_number(std::string_view text, double& out) const;

  CsvConfig config_;
  SampleSchema schema_;
  size_t width_ = 0;
  std::optional<size_t> label_;
  std::vector<size_t> numeric_, categorical_, bucketised_;
  std::vector<std::vector<size_t>> crossed_;  // places among the fields
};

// The names of the columns that a first line holds.
std::vector<std::string> column_names(const CsvConfig& config, std::string_view line);

// The line that begins `text`, without its end and the spaces around it; `text` then begins after it.
std::string_view next_line(std::string_view& text);

}  // namespace mstrain::recommender
