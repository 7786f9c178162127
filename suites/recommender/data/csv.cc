#include "suites/recommender/data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace mstrain::recommender {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 34;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

void split(std::string_view line, char separator, std::vector<std::string_view>& out) {
  out.clear();
  while (true) {
    const size_t end = line.find(separator);
    out.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) {
      return;
    }
    line.remove_prefix(end + 1);
  }
}

class CsvSamples final : public SampleSource {
 public:
  CsvSamples(const CsvConfig& config, const YamlNode& tree, std::string_view text,
             const std::string& path, bool needs_labels)
      : config_(config), path_(path) {
    if (config.separator.size() != 1) {
      config_fail(tree, "data.csv.separator", "expected one character");
    }
    identity_ = to_string(hash_bytes(text, hash_bytes(to_flow(write_config(config))).lo));
    std::vector<std::string_view> values;
    size_t number = 0;
    bool is_named = !config.header;
    if (is_named) {
      find_columns(config.columns, tree, needs_labels);
    }
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view line = trimmed(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      ++number;
      if (line.empty()) {
        continue;
      }
      split(line, config.separator[0], values);
      if (!is_named) {
        find_columns({values.begin(), values.end()}, tree, needs_labels);
        is_named = true;
        continue;
      }
      if (values.size() != width_) {
        throw IoError(
            fmt::format("{}:{}: {} columns, expected {}", path, number, values.size(), width_));
      }
      add(values, number);
    }
    if (labels_.empty()) {
      throw IoError(fmt::format("{}: there are no samples", path));
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
  void find_columns(const std::vector<std::string>& names, const YamlNode& tree,
                    bool needs_labels) {
    width_ = names.size();
    const auto column = [&](const std::string& name, const char* key) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        config_fail(tree, key,
                    fmt::format("{} has no column {}{}", path_, name, did_you_mean(name, names)));
      }
      return static_cast<size_t>(found - names.begin());
    };
    const bool has_label = std::find(names.begin(), names.end(), config_.label) != names.end();
    label_ = has_label || needs_labels ? std::optional(column(config_.label, "data.csv.label"))
                                       : std::nullopt;
    for (const std::string& name : config_.numeric) {
      numeric_.push_back(column(name, "data.csv.numeric"));
      schema_.numeric.push_back(name);
    }
    for (const std::string& name : config_.categorical) {
      categorical_.push_back(column(name, "data.csv.categorical"));
      schema_.fields.push_back({.name = name});
    }
    for (const BucketConfig& bucket : config_.buckets) {
      if (!std::is_sorted(bucket.boundaries.begin(), bucket.boundaries.end())) {
        config_fail(tree, "data.csv.buckets", "boundaries do not ascend");
      }
      bucketised_.push_back(column(bucket.column, "data.csv.buckets"));
      schema_.fields.push_back({.name = bucket.name()});
    }
    const size_t single = schema_.fields.size();
    std::vector<std::string> known;
    for (const FieldSpec& field : schema_.fields) {
      known.push_back(field.name);
    }
    for (const CrossConfig& cross : config_.crosses) {
      std::string name;
      crossed_.emplace_back();
      for (const std::string& part : cross.of) {
        const auto found =
            std::find(known.begin(), known.begin() + static_cast<ptrdiff_t>(single), part);
        if (found == known.end()) {
          config_fail(tree, "data.csv.crosses",
                      fmt::format("there is no field {}{}", part, did_you_mean(part, known)));
        }
        crossed_.back().push_back(static_cast<size_t>(found - known.begin()));
        name += (name.empty() ? "" : "_x_") + part;
      }
      schema_.fields.push_back({.name = name});
    }
    if (schema_.fields.empty()) {
      config_fail(tree, "data.csv.categorical", "there is no field of ids");
    }
  }

  double number(std::string_view text, size_t line) const {
    if (text.empty()) {
      return 0;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      throw IoError(fmt::format("{}:{}: expected a number, found \"{}\"", path_, line, text));
    }
    return value;
  }

  void add(const std::vector<std::string_view>& values, size_t line) {
    labels_.push_back(!label_ ? -1.0F : values[*label_] == config_.positive ? 1.0F : 0.0F);
    for (const size_t column : numeric_) {
      const double value = number(values[column], line);
      numbers_.push_back(static_cast<float>(
          config_.numeric_scale == NumericScale::kNone ? value : std::log1p(std::max(value, 0.0))));
    }
    const size_t first = ids_.size();
    for (const size_t column : categorical_) {
      ids_.push_back(hash_bytes(values[column]).lo);
    }
    for (size_t i = 0; i < bucketised_.size(); ++i) {
      const std::vector<double>& bounds = config_.buckets[i].boundaries;
      ids_.push_back(static_cast<uint64_t>(
          std::upper_bound(bounds.begin(), bounds.end(), number(values[bucketised_[i]], line)) -
          bounds.begin()));
    }
    for (const std::vector<size_t>& parts : crossed_) {
      uint64_t id = 0;
      for (const size_t part : parts) {
        id = hash_combine(id, ids_[first + part]);
      }
      ids_.push_back(id);
    }
  }

  CsvConfig config_;
  std::string path_, identity_;
  SampleSchema schema_;
  size_t width_ = 0;
  std::optional<size_t> label_;
  std::vector<size_t> numeric_, categorical_, bucketised_;
  std::vector<std::vector<size_t>> crossed_;  // places among the fields
  std::vector<float> labels_, numbers_;
  std::vector<uint64_t> ids_;  // [samples, fields]
};

}  // namespace

std::shared_ptr<const SampleSource> read_csv(FileSystem& files, const CsvConfig& config,
                                             const YamlNode& tree, const std::string& path,
                                             bool needs_labels) {
  const std::string text = files.read(path, kLargestFile);
  return std::make_shared<const CsvSamples>(config, tree, text, path, needs_labels);
}

}  // namespace mstrain::recommender
