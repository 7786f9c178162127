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
             const std::string& path, const FieldIds& ids, bool needs_labels, int64_t malformed) {
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
    LeftOut left_out;
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
        left_out.add(fmt::format("{}:{}: {}", path, number, why));
        continue;
      }
      labels_.push_back(sample.label);
      numbers_.insert(numbers_.end(), sample.numeric.begin(), sample.numeric.end());
      for (size_t f = 0; f < sample.values.size(); ++f) {
        ids_.push_back(ids.id(f, sample.values[f]));
      }
      bags_.resize(sample.bags.size());
      for (size_t b = 0; b < bags_.size(); ++b) {
        bags_[b].ids.insert(bags_[b].ids.end(), sample.bags[b].begin(), sample.bags[b].end());
        bags_[b].ends.push_back(bags_[b].ids.size());
      }
    }
    left_out.finish(static_cast<int64_t>(number), malformed);
    if (labels_.empty()) {
      throw IoError(fmt::format("{}: there are no samples", path));
    }
    schema_ = columns->schema();
    for (size_t f = 0; f + bags_.size() < schema_.fields.size(); ++f) {
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
      const size_t single = out.fields.size() - bags_.size();
      for (size_t f = 0; f < single; ++f) {
        out.fields[f].ids.push_back(ids_[s * single + f]);
      }
      for (size_t b = 0; b < bags_.size(); ++b) {
        SampleBatch::Field& field = out.fields[single + b];
        const Bag& bag = bags_[b];
        field.offsets.resize(std::max<size_t>(1, field.offsets.size()));
        field.ids.insert(field.ids.end(),
                         bag.ids.begin() + static_cast<ptrdiff_t>(s == 0 ? 0 : bag.ends[s - 1]),
                         bag.ids.begin() + static_cast<ptrdiff_t>(bag.ends[s]));
        field.offsets.push_back(static_cast<uint32_t>(field.ids.size()));
      }
    }
  }

 private:
  std::string identity_;
  SampleSchema schema_;
  std::vector<float> labels_, numbers_;
  std::vector<uint64_t> ids_;  // [samples, fields]
  struct Bag {
    std::vector<uint64_t> ids;
    std::vector<size_t> ends;  // by sample
  };
  std::vector<Bag> bags_;
};

}  // namespace

std::shared_ptr<const SampleSource> read_csv(FileSystem& files, const CsvConfig& config,
                                             const YamlNode& tree, const std::string& path,
                                             bool needs_labels, const FieldIds* ids,
                                             int64_t malformed) {
  const std::string text = files.read(path, kLargestFile);
  require_text(text, path);
  const std::shared_ptr<const FieldIds> hashes = hashed_ids(0);
  return std::make_shared<const CsvSamples>(
      config, tree, text, path, ids == nullptr ? *hashes : *ids, needs_labels, malformed);
}

}  // namespace mstrain::recommender
