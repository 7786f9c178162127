#include "suites/recommender/data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/thread_pool.h"
#include "core/io/gzip.h"
#include "suites/recommender/data/field_ids.h"
#include "suites/recommender/data/text_chunks.h"

namespace mstrain::recommender {
namespace {

// Those of the first line, or of columns without a header; that of the labels may be left out where none are needed.
std::vector<std::string> names_of(const CsvConfig& config, std::string_view text,
                                  bool needs_labels) {
  std::string_view line;
  while (line.empty() && !text.empty()) {
    line = next_line(text);
  }
  std::vector<std::string> found = column_names(config, line);
  if (config.header) {
    return found;
  }
  std::vector<std::string> names = config.columns;
  if (!needs_labels && found.size() + 1 == names.size()) {
    std::erase(names, config.label);
  }
  return names;
}

void expect_samples(bool are_there, const std::string& path) {
  if (!are_there) {
    throw IoError(fmt::format("{}: there are no samples", path));
  }
}

// What a piece of the text holds.
struct Piece {
  std::vector<float> labels, numbers;
  std::vector<uint64_t> ids;  // [samples, fields of one id]
  struct Bag {
    std::vector<uint64_t> ids;
    std::vector<size_t> ends;  // by sample
  };
  std::vector<Bag> bags;
  LineCounts lines;
  std::vector<Malformed> refused;  // the first

  void add(const TextSample& sample, const FieldIds& names) {
    labels.push_back(sample.label);
    numbers.insert(numbers.end(), sample.numeric.begin(), sample.numeric.end());
    for (size_t f = 0; f < sample.values.size(); ++f) {
      ids.push_back(names.id(f, sample.values[f]));
    }
    bags.resize(sample.bags.size());
    for (size_t b = 0; b < bags.size(); ++b) {
      for (const uint64_t value : sample.bags[b]) {
        bags[b].ids.push_back(names.id(sample.values.size() + b, value));
      }
      bags[b].ends.push_back(bags[b].ids.size());
    }
  }
};

class CsvSamples final : public SampleSource {
 public:
  CsvSamples(const CsvConfig& config, const YamlNode& tree, std::string_view text,
             const std::string& path, const FieldIds& ids, const CsvReading& how) {
    if (config.separator.size() != 1) {
      config_fail(tree, "data.csv.separator", "expected one character");
    }
    expect_samples(text.find_first_not_of("\r\n") != text.npos, path);
    if (!how.needs_labels) {  // where a file ends with empty lines none is beside a prediction
      text = text.substr(0, text.find_last_not_of("\r\n") + 1);
    }
    ThreadPool workers(how.threads - 1);
    std::future<std::string> identity = workers.submit(
        [&] { return to_string(hash_bytes(text, hash_bytes(to_flow(write_config(config))).lo)); });
    TextColumns columns(config, tree, names_of(config, text, how.needs_labels), path,
                        how.needs_labels);
    std::optional<std::string> own;
    std::optional<std::string>& other_label = how.other_label != nullptr ? *how.other_label : own;
    if (!other_label) {
      other_label = columns.other_label(text);
    }
    columns.expect(other_label);
    const std::vector<TextChunk> chunks = chunks_of({text.size()}, how.piece_bytes);
    pieces_.resize(chunks.size());
    workers.parallel_for(std::ssize(chunks), 1, [&](int64_t at, int64_t) {
      Piece& piece = pieces_[static_cast<size_t>(at)];
      piece.lines = for_samples(
          text, chunks[static_cast<size_t>(at)], config.header, columns,
          [&](const TextSample& sample) { piece.add(sample, ids); },
          [&](const Malformed& line) {
            if (piece.refused.size() < AllLines::kShown) {
              piece.refused.push_back(line);
            }
          });
    });
    AllLines all;
    for (const Piece& piece : pieces_) {
      std::vector<std::string> shown;
      for (const auto& [line, why] : piece.refused) {
        shown.push_back(fmt::format("{}:{}: {}", path, all.counts().lines + line + 1, why));
      }
      all.add(piece.lines, shown);
      ends_.push_back(all.counts().samples);
    }
    schema_ = columns.schema();
    for (const std::string& warning : all.warnings(how.malformed, schema_.numeric)) {
      log_warning("{}: {}", path, warning);
    }
    expect_samples(samples() > 0, path);
    if (how.needs_labels) {
      warn_of_one_label(config, path);
    }
    identity_ = identity.get();
    const size_t single = schema_.fields.size() - config.bags.size();
    for (size_t b = 0; b < config.bags.size(); ++b) {
      size_t ids_of_bags = 0;
      for (const Piece& piece : pieces_) {
        ids_of_bags += piece.bags.empty() ? 0 : piece.bags[b].ids.size();
      }
      schema_.fields[single + b].ids =
          static_cast<double>(ids_of_bags) / static_cast<double>(samples());
    }
    for (size_t f = 0; f < schema_.fields.size(); ++f) {
      schema_.fields[f].rows = ids.rows(f);
      if (schema_.fields[f].rows > 0) {
        identity_ += fmt::format("<{}", schema_.fields[f].rows);
      }
    }
  }

  const SampleSchema& schema() const override { return schema_; }
  int64_t samples() const override { return ends_.back(); }
  std::string identity() const override { return identity_; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override {
    out = {};
    out.samples = std::ssize(samples);
    out.fields.resize(schema_.fields.size());
    for (const int64_t sample : samples) {
      const auto in =
          static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin());
      const Piece& piece = pieces_.at(in);
      const auto s = static_cast<size_t>(sample - (in == 0 ? 0 : ends_[in - 1]));
      out.labels.push_back(piece.labels.at(s));
      const auto numbers =
          piece.numbers.begin() + static_cast<ptrdiff_t>(s * schema_.numeric.size());
      out.numeric.insert(out.numeric.end(), numbers,
                         numbers + static_cast<ptrdiff_t>(schema_.numeric.size()));
      const size_t single = out.fields.size() - piece.bags.size();
      for (size_t f = 0; f < single; ++f) {
        out.fields[f].ids.push_back(piece.ids[s * single + f]);
      }
      for (size_t b = 0; b < piece.bags.size(); ++b) {
        SampleBatch::Field& field = out.fields[single + b];
        const Piece::Bag& bag = piece.bags[b];
        field.offsets.resize(std::max<size_t>(1, field.offsets.size()));
        field.ids.insert(field.ids.end(),
                         bag.ids.begin() + static_cast<ptrdiff_t>(s == 0 ? 0 : bag.ends[s - 1]),
                         bag.ids.begin() + static_cast<ptrdiff_t>(bag.ends[s]));
        field.offsets.push_back(static_cast<uint32_t>(field.ids.size()));
      }
    }
  }

 private:
  // Nothing is to be learned then; often the label is written otherwise than data.csv.positive says.
  void warn_of_one_label(const CsvConfig& config, const std::string& path) const {
    int64_t positive = 0;
    for (const Piece& piece : pieces_) {
      positive += std::count(piece.labels.begin(), piece.labels.end(), 1.0F);
    }
    if (positive == 0 || positive == samples()) {
      log_warning("{}: {} of {} samples {} the label \"{}\" (data.csv.positive)", path,
                  positive == 0 ? "none" : "all", samples(), positive == 0 ? "has" : "have",
                  config.positive);
    }
  }

  std::string identity_;
  SampleSchema schema_;
  std::vector<Piece> pieces_;
  std::vector<int64_t> ends_;  // samples of the pieces up to each
};

}  // namespace

std::shared_ptr<const SampleSource> read_csv(FileSystem& files, const CsvConfig& config,
                                             const YamlNode& tree, const std::string& path,
                                             const CsvReading& how) {
  std::error_code error;
  const bool is_pipe = std::filesystem::is_fifo(path, error);
  const bool is_gzip = !is_pipe && path.ends_with(".gz");
  const std::string held = is_gzip   ? inflate_gzip(files, path)
                           : is_pipe ? files.read(path)
                                     : std::string();
  const std::unique_ptr<MappedFile> file = is_gzip || is_pipe ? nullptr : files.map(path);
  const std::string_view text = text_of_file(file == nullptr ? held : as_text(file->bytes()), path);
  const std::shared_ptr<const FieldIds> hashes = hashed_ids(0);
  return std::make_shared<const CsvSamples>(config, tree, text, path,
                                            how.ids == nullptr ? *hashes : *how.ids, how);
}

}  // namespace mstrain::recommender
