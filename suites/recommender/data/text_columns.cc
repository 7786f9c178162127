#include "suites/recommender/data/text_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace mstrain::recommender {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// Up to `most` columns and one more, which says that there are others.
void split(std::string_view line, char separator, size_t most, std::vector<std::string_view>& out) {
  out.clear();
  while (out.size() <= most) {
    const size_t end = line.find(separator);
    out.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) {
      return;
    }
    line.remove_prefix(end + 1);
  }
}

}  // namespace

std::string_view text_of_file(std::string_view content, const std::string& path) {
  struct Kind {
    std::string_view begins, what;
  };
  constexpr Kind kKinds[] = {
      {"PAR1",
       "Parquet, which nothing here reads: write its columns as text for data.format: csv, in "
       "Python "
       "pandas.read_parquet(...).to_csv(..., index=False)"},
      {"\x1f\x8b", "gzipped: unpack it, or call it .gz"},
      {"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it"},
      {"\xff\xfe", "UTF-16: write it as UTF-8"},
      {"\xfe\xff", "UTF-16: write it as UTF-8"}};
  for (const auto& [begins, what] : kKinds) {
    if (content.starts_with(begins)) {
      throw IoError(fmt::format("{}: is {}", path, what));
    }
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (content.starts_with(kByteOrderMark)) {
    content.remove_prefix(kByteOrderMark.size());
  }
  return content;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

std::vector<std::string> column_names(const CsvConfig& config, std::string_view line) {
  std::vector<std::string_view> values;
  split(line, config.separator[0], line.size(), values);
  return {values.begin(), values.end()};
}

TextColumns::TextColumns(const CsvConfig& config, const YamlNode& tree,
                         const std::vector<std::string>& names, const std::string& path,
                         bool needs_labels)
    : config_(config), width_(names.size()), needs_labels_(needs_labels) {
  const auto column = [&](const std::string& name, const char* key) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      config_fail(
          tree, key,
          fmt::format("{} has no column {}{}{}", path, name, did_you_mean(name, names),
                      names.size() > 1 ? ""
                                       : fmt::format("; it has one column alone where \"{}\" "
                                                     "(data.csv.separator) is between them",
                                                     config.separator)));
    }
    if (std::find(found + 1, names.end(), name) != names.end()) {
      config_fail(tree, key, fmt::format("{} has two columns called {}", path, name));
    }
    return static_cast<size_t>(found - names.begin());
  };
  const auto add_field = [&](const FieldSpec& field, const char* key) {
    const auto is_same = [&](const FieldSpec& other) { return other.name == field.name; };
    if (std::any_of(schema_.fields.begin(), schema_.fields.end(), is_same)) {
      config_fail(tree, key, fmt::format("two fields of ids would be called {}", field.name));
    }
    schema_.fields.push_back(field);
  };
  const bool has_label = std::find(names.begin(), names.end(), config.label) != names.end();
  label_ = has_label || needs_labels ? std::optional(column(config.label, "data.csv.label"))
                                     : std::nullopt;
  for (const std::string& name : config.numeric) {
    if (std::find(schema_.numeric.begin(), schema_.numeric.end(), name) != schema_.numeric.end()) {
      config_fail(tree, "data.csv.numeric", fmt::format("{} comes twice", name));
    }
    numeric_.push_back(column(name, "data.csv.numeric"));
    schema_.numeric.push_back(name);
  }
  for (const std::string& name : config.categorical) {
    categorical_.push_back(column(name, "data.csv.categorical"));
    add_field({.name = name}, "data.csv.categorical");
  }
  for (const BucketConfig& bucket : config.buckets) {
    if (bucket.boundaries.empty()) {
      config_fail(tree, "data.csv.buckets",
                  fmt::format("{}: there are no boundaries", bucket.column));
    }
    if (!std::is_sorted(bucket.boundaries.begin(), bucket.boundaries.end())) {
      config_fail(tree, "data.csv.buckets", "boundaries do not ascend");
    }
    bucketised_.push_back(column(bucket.column, "data.csv.buckets"));
    add_field({.name = bucket.name()}, "data.csv.buckets");
  }
  const size_t single = schema_.fields.size();
  std::vector<std::string> known;
  for (const FieldSpec& field : schema_.fields) {
    known.push_back(field.name);
  }
  for (const CrossConfig& cross : config.crosses) {
    if (cross.of.size() < 2) {
      config_fail(tree, "data.csv.crosses", "a cross is of two fields or more");
    }
    std::string name;
    crossed_.emplace_back();
    for (const std::string& part : cross.of) {
      const auto found =
          std::find(known.begin(), known.begin() + static_cast<ptrdiff_t>(single), part);
      if (found == known.end()) {
        const auto is_it = [&](const BagConfig& bag) { return bag.column == part; };
        config_fail(tree, "data.csv.crosses",
                    std::any_of(config.bags.begin(), config.bags.end(), is_it)
                        ? fmt::format("{} is a bag, and a cross is of fields of one id", part)
                        : fmt::format("there is no field {}{}", part, did_you_mean(part, known)));
      }
      if (std::count(cross.of.begin(), cross.of.end(), part) > 1) {
        config_fail(tree, "data.csv.crosses", fmt::format("{} comes twice in a cross", part));
      }
      crossed_.back().push_back(static_cast<size_t>(found - known.begin()));
      name += (name.empty() ? "" : "_x_") + part;
    }
    add_field({.name = name}, "data.csv.crosses");
  }
  for (const BagConfig& bag : config.bags) {
    if (bag.separator.size() != 1 || bag.separator == config.separator) {
      config_fail(
          tree, "data.csv.bags",
          fmt::format("{}: separator: expected one character, which does not separate columns",
                      bag.column));
    }
    bags_.push_back(column(bag.column, "data.csv.bags"));
    add_field({.name = bag.column, .is_bag = true, .pooling = bag.pooling}, "data.csv.bags");
  }
  if (schema_.fields.empty()) {
    config_fail(tree, "data.csv.categorical", "there is no field of ids");
  }
}

bool TextColumns::parse_number(std::string_view text, double& out) const {
  out = 0;
  if (text.empty()) {
    return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

bool TextColumns::is_other_label(std::string_view text) const {
  return label_ && needs_labels_ && negative() != "*" && text != config_.positive;
}

std::optional<std::string> TextColumns::other_label(std::string_view text) const {
  std::vector<std::string_view> texts;
  bool is_names = config_.header;
  while (!text.empty() && label_ && needs_labels_ && !negative()) {
    const std::string_view line = next_line(text);
    if (line.empty() || std::exchange(is_names, false)) {
      continue;
    }
    split(line, config_.separator[0], width_, texts);
    if (texts.size() == width_ && is_other_label(texts[*label_])) {
      return std::string(texts[*label_]);
    }
  }
  return {};
}

// Two labels that nobody named are a mistake, as where one file ends them with a full stop and another does not.
std::string TextColumns::parse_label(std::string_view text, TextSample& out) const {
  out.label = !label_ ? -1.0F : text == config_.positive ? 1.0F : 0.0F;
  if (!is_other_label(text)) {
    return {};
  }
  const std::string& other = negative() ? *negative() : other_label_.value();
  if (text == other) {
    return {};
  }
  out.has_third_label = !negative();
  if (config_.fixed_negative) {
    return fmt::format("the label \"{}\" is neither \"{}\" nor \"{}\"", text, config_.positive,
                       other);
  }
  return fmt::format("the label \"{}\" is neither data.csv.positive, \"{}\", nor {}, \"{}\"", text,
                     config_.positive,
                     config_.negative ? "data.csv.negative" : "the other one so far", other);
}

void TextColumns::parse_bags(std::span<const std::string_view> texts, TextSample& out) const {
  out.bags.resize(bags_.size());
  for (size_t b = 0; b < bags_.size(); ++b) {
    out.bags[b].clear();
    std::string_view rest = texts[bags_[b]];
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(config_.bags[b].separator[0]), rest.size());
      if (const std::string_view value = trimmed(rest.substr(0, end)); !value.empty()) {
        out.bags[b].push_back(hash_bytes(value).lo);
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
}

std::string TextColumns::parse(std::string_view line, TextSample& out) const {
  if (line.empty() && !passes_over_empty_lines()) {
    return "an empty line, for which there would be no prediction";
  }
  thread_local std::vector<std::string_view> texts;
  split(line, config_.separator[0], width_, texts);
  if (texts.size() != width_) {
    return fmt::format("{}{} columns, expected {}", texts.size() > width_ ? "more than " : "",
                       std::min(texts.size(), width_), width_);
  }
  out.numeric.clear();
  out.values.clear();
  out.cut_off.clear();
  out.has_third_label = false;
  if (std::string why = parse_label(label_ ? texts[*label_] : std::string_view(), out);
      !why.empty()) {
    return why;
  }
  parse_bags(texts, out);
  double number = 0;
  const auto no_number = [](std::string_view text, const std::string& column) {
    return fmt::format("expected a number, found \"{}\" in column {}", text, column);
  };
  for (size_t i = 0; i < numeric_.size(); ++i) {
    if (!parse_number(texts[numeric_[i]], number)) {
      return no_number(texts[numeric_[i]], config_.numeric[i]);
    }
    const bool is_log = config_.numeric_scale == NumericScale::kLog1p;
    if (is_log && number < 0) {
      out.cut_off.push_back(i);
    }
    out.numeric.push_back(static_cast<float>(is_log ? std::log1p(std::max(number, 0.0)) : number));
    if (!std::isfinite(out.numeric.back())) {
      return fmt::format("{} in column {} is more than a float of 32 bits holds",
                         texts[numeric_[i]], config_.numeric[i]);
    }
  }
  for (const size_t column : categorical_) {
    out.values.push_back(hash_bytes(texts[column]).lo);
  }
  for (size_t i = 0; i < bucketised_.size(); ++i) {
    const std::vector<double>& bounds = config_.buckets[i].boundaries;
    if (!parse_number(texts[bucketised_[i]], number)) {
      return no_number(texts[bucketised_[i]], config_.buckets[i].column);
    }
    out.values.push_back(static_cast<uint64_t>(
        std::upper_bound(bounds.begin(), bounds.end(), number) - bounds.begin()));
  }
  for (const std::vector<size_t>& parts : crossed_) {
    uint64_t value = 0;
    for (const size_t part : parts) {
      value = hash_combine(value, out.values[part]);
    }
    out.values.push_back(value);
  }
  return {};
}

}  // namespace mstrain::recommender
