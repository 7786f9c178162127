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
  std::vector<uint64_t>
      values;  // by field of one id: the hash of the value, or the number of the bucket
  std::vector<std::vector<uint64_t>> bags;  // of the fields of several, which come last
  std::vector<size_t> cut_off;   // places in `numeric` of what log1p makes 0, as it is negative
  bool has_third_label = false;  // of a line that is no sample: none of two, of which one was found
};

class TextColumns {
 public:
  // `names`: of all columns; `path` is named in errors. `needs_labels`: false where there may be no column of labels. Throws ConfigError
  // naming the key, for a column that is not there.
  TextColumns(const CsvConfig& config, const YamlNode& tree, const std::vector<std::string>& names,
              const std::string& path, bool needs_labels);

  const SampleSchema& schema() const { return schema_; }
  size_t width() const { return width_; }
  // The first label of `text`, a whole file, that is not data.csv.positive. None where nobody need know it.
  std::optional<std::string> other_label(std::string_view text) const;
  // What other_label() gave of this text, or of one before it. It comes before parse().
  void expect(std::optional<std::string> other_label) { other_label_ = std::move(other_label); }
  // Whether an empty line is none at all. Where text is scored it is an error: answers stand line by line beside the file.
  bool passes_over_empty_lines() const { return needs_labels_; }
  // Any thread, each with a sample of its own. Says what is wrong with the line; empty: nothing is.
  std::string parse(std::string_view line, TextSample& out) const;

 private:
  bool parse_number(std::string_view text, double& out) const;
  const std::optional<std::string>& negative() const {  // none: nobody named it
    return config_.negative ? config_.negative : config_.fixed_negative;
  }
  bool is_other_label(std::string_view text) const;
  std::string parse_label(std::string_view text, TextSample& out) const;
  void parse_bags(std::span<const std::string_view> texts, TextSample& out) const;

  CsvConfig config_;
  SampleSchema schema_;
  size_t width_ = 0;
  std::optional<size_t> label_;
  std::optional<std::string> other_label_;
  bool needs_labels_ = true;
  std::vector<size_t> numeric_, categorical_, bucketised_, bags_;
  std::vector<std::vector<size_t>> crossed_;  // places among the fields
};

// The text of a file, without the mark of UTF-8 that spreadsheets begin it with. Throws IoError where it begins as a file of another kind does,
// saying how it becomes text.
std::string_view text_of_file(std::string_view content, const std::string& path);

// The names of the columns that a first line holds.
std::vector<std::string> column_names(const CsvConfig& config, std::string_view line);

// The line that begins `text`, without its end and the spaces around it; `text` then begins after it.
std::string_view next_line(std::string_view& text);

}  // namespace mstrain::recommender
