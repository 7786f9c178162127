#include "suites/recommender/data/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "suites/recommender/data/field_ids.h"
#include "suites/recommender/data/text_columns.h"

namespace mstrain::recommender {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 34;

// Of columns without a header; that of the labels may be left out where none are needed.
std::vector<std::string> names_of(const CsvConfig& config, std::string_view text,
                                  bool needs_labels) {
  std::vector<std::string> names = config.columns;
  if (!needs_labels && column_names(config, next_line(text)).size() + 1 == names.size()) {
    std::erase(names, config.label);
  }
  return names;
}

class CsvSamples final : public SampleSource {
 public:
  CsvSamples(const CsvConfig& config, const YamlNode& tree, std::string_view text,
             const std::string& path, const FieldIds& ids, bool needs_labels) {
    if (config.separator.size() != 1) {
      config_fail(tree, "data.csv.separator", "expected one character");
    }
    identity_ = to_string(hash_bytes(text, hash_bytes(to_flow(write_config(config))).lo));
    size_t number = 0;
    std::optional<TextColumns> columns;
    if (!config.header) {
      columns.emplace(config, tree, names_of(config, text, needs_labels), path, needs_labels);
    }
    TextSample sample;
    while (!text.empty()) {
      const std::string_view line = next_line(text);
      ++number;
      if (line.empty()) {
        continue;
      }
      if (!columns) {
        columns.emplace(config, tree, column_names(config, line), path, needs_labels);
        continue;
      }
      if (const std::string why = columns->parse(line, sample); !why.empty()) {
        throw IoError(fmt::format("{}:{}: {}", path, number, why));
      }
      labels_.push_back(sample.label);
      numbers_.insert(numbers_.end(), sample.numeric.begin(), sample.numeric.end());
      for (size_t f = 0; f < sample.values.size(); ++f) {
        ids_.push_back(ids.id(f, sample.values[f]));
      }
    }
    if (labels_.empty()) {
      throw IoError(fmt::format("{}: there are no samples", path));
    }
    schema_ = columns->schema();
    for (size_t f = 0; f < schema_.fields.size(); ++f) {
      schema_.fields[f].rows = ids.rows(f);
    }
  }

  const SampleSchema& schema() const override { return schema_; }
  int64_t samples() const override { return std::ssize(labels_); }
  std::string identity() const override { return identity_; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override {
    out = {};
    out.samples = std::ssize(samples);
    out.fields.resize(schema_.fields.size());
    for (const int64_t sample : samples) {
      const auto s = static_cast<size_t>(sample);
      out.labels.push_back(labels_.at(s));
      const auto numbers = numbers_.begin() + static_cast<ptrdiff_t>(s * schema_.numeric.size());
      out.numeric.insert(out.numeric.end(), numbers,
                         numbers + static_cast<ptrdiff_t>(schema_.numeric.size()));
      for (size_t f = 0; f < out.fields.size(); ++f) {
        out.fields[f].ids.push_back(ids_[s * out.fields.size() + f]);
      }
    }
  }

 private:
  std::string identity_;
  SampleSchema schema_;
  std::vector<float> labels_, numbers_;
  std::vector<uint64_t> ids_;  // [samples, fields]
};

}  // namespace

std::shared_ptr<const SampleSource> read_csv(FileSystem& files, const CsvConfig& config,
                                             const YamlNode& tree, const std::string& path,
                                             bool needs_labels, const FieldIds* ids) {
  const std::string text = files.read(path, kLargestFile);
  const std::shared_ptr<const FieldIds> hashes = hashed_ids(0);
  return std::make_shared<const CsvSamples>(config, tree, text, path,
                                            ids == nullptr ? *hashes : *ids, needs_labels);
}

}  // namespace mstrain::recommender
