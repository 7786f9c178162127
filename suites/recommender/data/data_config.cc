#include "suites/recommender/data/data_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/data/corpus_sources.h"

namespace mstrain::recommender {
namespace {

constexpr const char* kFormats[] = {"synthetic", "csv", "criteo_tsv"};
constexpr int kCriteoNumbers = 13, kCriteoValues = 26;

// The folder, which must be of this configuration. Throws ConfigError.
Prepared prepared_for(FileSystem& files, const DataConfig& config, const YamlNode& tree) {
  Prepared prepared = read_prepared(files, *config.prepared);
  if (prepared.columns != columns_key(config)) {
    config_fail(tree, "data.prepared",
                fmt::format("{} was made {}; preprocess into another folder", *config.prepared,
                            difference_of_keys(prepared, config)));
  }
  return prepared;
}

// Training reads what was made of data.train: another file there would have no effect. The text itself may be gone, and files may have come
// that match as well.
void check_source(FileSystem& files, const DataConfig& config, const YamlNode& tree,
                  const Prepared& prepared) {
  if (!config.train || prepared.files.empty()) {
    return;
  }
  const std::vector<SourceFile> named = source_files(files, matching_files(files, *config.train));
  if (name_of(*config.train) != prepared.train && !have_same_names(named, prepared.files)) {
    config_fail(tree, "data.train",
                fmt::format("has no effect: data.prepared, {}, was made of {}; preprocess {} into "
                            "another folder",
                            *config.prepared, names_of(prepared.files), *config.train));
  }
  if (!named.empty() && named != prepared.files) {
    log_warning("{}: has changed since {} was made of it, which is what is read",
                config_where(tree, "data.train"), *config.prepared);
  }
}

// Throws ConfigError for a pattern.
void expect_one_file(FileSystem& files, const YamlNode& tree, const char* key,
                     const std::string& path) {
  const std::vector<std::string> found = matching_files(files, path);
  if (!found.empty() && found[0] != path) {
    config_fail(tree, key,
                fmt::format("{} is a pattern, as data.train of mstrain preprocess may be, which "
                            "makes data.prepared of the files; text that is read into memory is "
                            "one file",
                            path));
  }
}

// What values of text that is read into memory are called.
std::shared_ptr<const FieldIds> ids_of_text(const DataConfig& config) {
  const bool is_bounded = config.ids.mode == IdsConfig::Mode::kHash;
  return hashed_ids(is_bounded ? static_cast<uint64_t>(config.ids.buckets) : 0);
}

// Throws where `given` is not what it is by default, and nobody reads it.
template <class Section>
void expect_default(const YamlNode& tree, const char* key, const Section& given,
                    const std::string& why) {
  if (to_flow(write_config(given)) != to_flow(write_config(Section()))) {
    config_fail(tree, key, fmt::format("has no effect {}", why));
  }
}

void check_ids(const IdsConfig& ids, const YamlNode& tree) {
  const IdsConfig unset;
  if (ids.mode == IdsConfig::Mode::kDictionary && ids.buckets != unset.buckets) {
    config_fail(tree, "data.ids.buckets",
                "has no effect with data.ids.mode: dictionary; leave it at 0");
  }
  if (ids.mode == IdsConfig::Mode::kHash && ids.min_count != unset.min_count) {
    config_fail(
        tree, "data.ids.min_count",
        fmt::format("has no effect with data.ids.mode: hash; leave it at {}", unset.min_count));
  }
}

void check_label(const CsvConfig& csv, const YamlNode& tree) {
  const auto expect_other = [&](const char* key, const std::string& column) {
    if (column == csv.label) {
      config_fail(
          tree, key,
          fmt::format("\"{}\" is the label (data.csv.label), which no feature may tell", column));
    }
  };
  if (csv.negative == csv.positive) {
    config_fail(tree, "data.csv.negative",
                fmt::format("\"{}\" is what data.csv.positive says of label 1, too", csv.positive));
  }
  for (const auto& [key, columns] : {std::pair("data.csv.numeric", &csv.numeric),
                                     std::pair("data.csv.categorical", &csv.categorical)}) {
    for (const std::string& column : *columns) {
      expect_other(key, column);
    }
  }
  for (const BucketConfig& bucket : csv.buckets) {
    expect_other("data.csv.buckets", bucket.column);
  }
  for (const BagConfig& bag : csv.bags) {
    expect_other("data.csv.bags", bag.column);
  }
}

}  // namespace

void check_data_config(const DataConfig& config, const YamlNode& tree) {
  const std::string beside =
      fmt::format("with data.format: {}", kFormats[static_cast<size_t>(config.format)]);
  if (config.format == DataFormat::kSynthetic) {
    for (const auto& [key, path] :
         {std::pair("data.train", &config.train), std::pair("data.valid", &config.valid),
          std::pair("data.prepared", &config.prepared)}) {
      if (path->has_value()) {
        config_fail(tree, key, fmt::format("has no effect {}; did you mean csv?", beside));
      }
    }
    expect_default(tree, "data.csv", config.csv, beside);
    expect_default(tree, "data.ids", config.ids, beside);
    return;
  }
  if (!config.prepared && config.ids.mode == IdsConfig::Mode::kDictionary) {
    expect_default(tree, "data.ids", config.ids,
                   "without data.prepared: text that is read into memory has hashes for ids, which "
                   "data.ids: {mode: hash, buckets: N} bounds");
  }
  check_ids(config.ids, tree);
  if (config.format == DataFormat::kCriteoTsv) {
    CsvConfig unread = config.csv;
    unread.numeric_scale = CsvConfig().numeric_scale;
    expect_default(tree, "data.csv", unread, beside + ", but for numeric_scale");
    return;
  }
  if (config.csv.header && !config.csv.columns.empty()) {
    config_fail(tree, "data.csv.columns",
                "has no effect where the first line names the columns; data.csv.header: false, if "
                "it does not");
  }
  if (!config.csv.header && config.csv.columns.empty()) {
    config_fail(tree, "data.csv.columns", "name the columns: data.csv.header is false");
  }
  check_label(config.csv, tree);
}

CsvConfig text_columns_of(const DataConfig& config) {
  if (config.format != DataFormat::kCriteoTsv) {
    return config.csv;
  }
  CsvConfig csv;
  csv.separator = "\t";
  csv.header = false;
  csv.numeric_scale = config.csv.numeric_scale;
  csv.fixed_negative = "0";
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

std::vector<std::pair<std::string, std::string>> keys_of_columns(const DataConfig& config) {
  std::vector<std::pair<std::string, std::string>> out{
      {"data.format", kFormats[static_cast<size_t>(config.format)]}};
  const auto add = [&](const std::string& section, const YamlNode& tree) {
    for (const auto& [key, value] : flatten_config(tree)) {
      out.emplace_back(section + key, value);
    }
  };
  add("data.csv.", write_config(config.csv));
  add("data.ids.", write_config(config.ids));
  return out;
}

std::string difference_of_keys(const Prepared& there, const DataConfig& config) {
  for (const auto& [key, value] : keys_of_columns(config)) {
    for (const auto& [its_key, its_value] : there.keys) {
      if (its_key == key && its_value != value) {
        return fmt::format("with {}: {}, here {}", key, its_value, value);
      }
    }
  }
  return "with other data.format, data.csv or data.ids";
}

OpenedSamples open_samples(FileSystem& files, const DataConfig& config, const YamlNode& tree,
                           int threads) {
  std::shared_ptr<const SampleSource> all;
  if (config.format == DataFormat::kSynthetic) {
    all = std::make_shared<const SyntheticSamples>(config.synthetic);
  } else if (config.prepared) {
    const Prepared prepared =
        for_key(tree, "data.prepared", [&] { return prepared_for(files, config, tree); });
    check_source(files, config, tree, prepared);
    all = for_key(tree, "data.prepared", [&] { return open_prepared(files, *config.prepared); });
    if (config.valid) {
      expect_one_file(files, tree, "data.valid", *config.valid);
      std::optional<std::string> other_label = prepared.other_label;
      return {all, for_key(tree, "data.valid", [&] {
                return read_csv(files, text_columns_of(config), tree, *config.valid,
                                {.ids = ids_of_prepared(files, *config.prepared, prepared).get(),
                                 .other_label = &other_label,
                                 .malformed = config.malformed.limit,
                                 .threads = threads});
              })};
    }
  } else {
    if (!config.train) {
      config_fail(tree, "data.train", "name the file");
    }
    std::optional<std::string> other_label;
    const auto read = [&](const char* key, const std::string& path) {
      expect_one_file(files, tree, key, path);
      return for_key(tree, key, [&] {
        return read_csv(files, text_columns_of(config), tree, path,
                        {.ids = ids_of_text(config).get(),
                         .other_label = &other_label,
                         .malformed = config.malformed.limit,
                         .threads = threads});
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
                                                     const YamlNode& tree, const std::string& path,
                                                     int threads) {
  if (config.format == DataFormat::kSynthetic) {
    config_fail(tree, "data.format", "the run's samples are synthetic: no file has their features");
  }
  const std::shared_ptr<const FieldIds> ids =
      config.prepared ? ids_of_prepared(files, *config.prepared, prepared_for(files, config, tree))
                      : ids_of_text(config);
  return read_csv(files, text_columns_of(config), tree, path,
                  {.needs_labels = false, .ids = ids.get(), .threads = threads});
}

}  // namespace mstrain::recommender
