#include "suites/recommender/data/preprocess.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/thread_pool.h"
#include "core/io/atomic_file.h"
#include "core/io/folder.h"
#include "core/io/gzip.h"
#include "core/io/safetensors.h"
#include "suites/recommender/data/prepared.h"
#include "suites/recommender/data/text_chunks.h"
#include "suites/recommender/data/value_counts.h"

namespace mstrain::recommender {
namespace {

constexpr const char* kWorkFolder = "work";
constexpr const char* kKeyFile = "key";
constexpr uint64_t kLargestKey = 1 << 20;

// Throws ConfigError.
std::vector<std::string> inputs_of(FileSystem& files, const DataConfig& config,
                                   const YamlNode& tree) {
  if (!config.train) {
    config_fail(tree, "data.train", "name the file, or a pattern of several");
  }
  std::vector<std::string> out = matching_files(files, *config.train);
  if (out.empty()) {
    config_fail(tree, "data.train", fmt::format("there is no {}", *config.train));
  }
  return out;
}

// Runs work(0) … work(count - 1) on the threads, each beginning where another one ended; stops at the first that fails, or at `stop`.
// False: not all were run.
bool run_all(ThreadPool& pool, size_t count, const std::atomic<bool>& stop,
             const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::vector<std::future<void>> threads;
  for (int i = 0; i < pool.size(); ++i) {
    threads.push_back(pool.submit([&] {
      for (size_t at = next++; at < count && !stop && !failed; at = next++) {
        try {
          work(at);
        } catch (...) {
          failed = true;
          throw;
        }
      }
    }));
  }
  std::exception_ptr first;
  for (std::future<void>& thread : threads) {
    try {
      thread.get();
    } catch (...) {
      first = first != nullptr ? first : std::current_exception();
    }
  }
  if (first != nullptr) {
    std::rethrow_exception(first);
  }
  return !stop;
}

class Preprocess {
 public:
  Preprocess(FileSystem& files, const DataConfig& config, const YamlNode& tree,
             const PreprocessOptions& options, const std::atomic<bool>& stop)
      : files_(files),
        config_(config),
        tree_(tree),
        options_(options),
        stop_(stop),
        folder_(*config.prepared),
        work_(join_path(folder_, kWorkFolder)),
        csv_(text_columns_of(config)),
        pool_(options.threads) {
    if (csv_.separator.size() != 1) {
      config_fail(tree, "data.csv.separator", "expected one character");
    }
    inputs_ = inputs_of(files, config, tree);
    prepared_.columns = columns_key(config);
    prepared_.keys = keys_of_columns(config);
    prepared_.train = name_of(*config.train);
    prepared_.files = source_files(files, inputs_);
    prepared_.has_dictionary = config.ids.mode == IdsConfig::Mode::kDictionary;
    prepared_.buckets = prepared_.has_dictionary ? 0 : static_cast<uint64_t>(config.ids.buckets);
  }

  Preprocessed run() {
    files_.create_directories(folder_);
    const std::unique_ptr<FileLock> lock = files_.try_lock(join_path(folder_, "lock"));
    if (lock == nullptr) {
      throw IoError(fmt::format("{}: another process works there", folder_));
    }
    clean_folders(files_, folder_);
    if (files_.exists(join_path(folder_, kPreparedFile))) {
      expect_to_be_of_this(read_prepared(files_, folder_));
      files_.remove_all(work_);
      return Preprocessed::kWasDone;
    }
    begin_or_go_on();
    if (!open_inputs() || !count() || !write_samples()) {
      return Preprocessed::kInterrupted;
    }
    write_prepared(files_, folder_, prepared_);
    files_.remove_all(work_);
    return Preprocessed::kDone;
  }

 private:
  void expect_to_be_of_this(const Prepared& there) const {
    const auto refuse = [&](const std::string& what) {
      config_fail(tree_, "data.prepared",
                  fmt::format("{} holds what was made {}; name another folder, or remove it",
                              folder_, what));
    };
    if (there.columns != prepared_.columns) {
      refuse(difference_of_keys(there, config_));
    }
    if (there.files.empty()) {
      refuse("by an earlier version, which did not note of which files");
    }
    if (!have_same_names(there.files, prepared_.files)) {
      refuse(fmt::format("of {}, not of {}", names_of(there.files), names_of(prepared_.files)));
    }
    for (size_t i = 0; i < there.files.size(); ++i) {
      if (there.files[i] != prepared_.files[i]) {
        refuse(fmt::format("of {} as it was before it was written anew", inputs_[i]));
      }
    }
  }

  std::string in_work(const std::string& name) const { return join_path(work_, name); }
  std::string counts_path(size_t chunk) const {
    return in_work(fmt::format("counts-{:05}.safetensors", chunk));
  }

  // What lies in the work folder is of this text, these columns and these pieces, or goes.
  void begin_or_go_on() {
    Hasher sources;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const SourceFile& file = prepared_.files[i];
      sources.add(inputs_[i]).add(file.bytes).add(file.modified);
    }
    const std::string key = fmt::format("{} {} {}\n", prepared_.columns,
                                        to_string(sources.finish()), options_.chunk_bytes);
    if (files_.exists(in_work(kKeyFile)) && files_.read(in_work(kKeyFile), kLargestKey) == key) {
      clean_folders(files_, work_);
      options_.tell("goes on with what was made before");
      return;
    }
    files_.remove_all(work_);
    for (const std::string& name : files_.list(folder_)) {
      if (name == kDictionaryFile || name.starts_with("part-")) {
        files_.remove(join_path(folder_, name));
      }
    }
    files_.create_directories(work_);
    write_file_atomic(files_, in_work(kKeyFile), key);
  }

  bool open_inputs() {
    std::vector<std::string> plain = inputs_;
    std::vector<size_t> packed;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].ends_with(".gz")) {
        plain[i] = in_work(fmt::format("inflated-{:05}", i));
        packed.push_back(i);
      }
    }
    const bool done = run_all(pool_, packed.size(), stop_, [&](size_t p) {
      if (!files_.exists(plain[packed[p]])) {
        AtomicFile out(files_, plain[packed[p]]);
        inflate_gzip(files_, inputs_[packed[p]], out);
        out.commit();
      }
    });
    if (!done) {
      return false;
    }
    std::vector<uint64_t> sizes;
    std::optional<std::string>& other_label = prepared_.other_label;
    for (size_t i = 0; i < plain.size(); ++i) {
      mapped_.push_back(files_.map(plain[i]));
      texts_.push_back(text_of_file(as_text(mapped_.back()->bytes()), inputs_[i]));
      std::string_view text = texts_[i];
      sizes.push_back(text.size());
      columns_.emplace_back(csv_, tree_,
                            csv_.header ? column_names(csv_, next_line(text)) : csv_.columns,
                            inputs_[i], /*needs_labels=*/true);
      other_label = other_label ? other_label : columns_[i].other_label(texts_[i]);
    }
    for (TextColumns& columns : columns_) {
      columns.expect(other_label);
    }
    prepared_.schema = columns_[0].schema();
    chunks_ = chunks_of(sizes, options_.chunk_bytes);
    return true;
  }

  std::string_view bytes_of(size_t chunk) const {
    const auto& [file, begin, end] = chunks_[chunk];
    return texts_[file].substr(begin, end - begin);
  }

  LineCounts for_samples_of(size_t chunk, const std::function<void(const TextSample&)>& use,
                            const std::function<void(const Malformed&)>& refused) const {
    const size_t file = chunks_[chunk].file;
    return for_samples(texts_[file], chunks_[chunk], csv_.header, columns_[file], use, refused);
  }

  // The first pass.
  bool count() {
    const auto start = std::chrono::steady_clock::now();
    if (!run_all(pool_, chunks_.size(), stop_, [&](size_t chunk) { count_chunk(chunk); })) {
      return false;
    }
    std::vector<SafetensorsFile> counts;
    AllLines all;
    Hasher input;
    int64_t before = 0;
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const SafetensorsFile& file = counts.emplace_back(files_, counts_path(chunk));
      const Json found = parse_json(file.metadata().at("found"), file.name());
      before = chunk > 0 && chunks_[chunk].file == chunks_[chunk - 1].file ? before : 0;
      std::vector<std::string> examples;
      for (const Json& example : found.at("examples")) {
        examples.push_back(fmt::format("{}:{}: {}", inputs_[chunks_[chunk].file],
                                       before + example.at("line").get<int64_t>() + 1,
                                       example.at("why").get<std::string>()));
      }
      const LineCounts of_chunk{.lines = found.at("lines").get<int64_t>(),
                                .samples = found.at("samples").get<int64_t>(),
                                .malformed = found.at("malformed").get<int64_t>(),
                                .third_labels = found.at("third_labels").get<int64_t>(),
                                .cut_off = found.at("cut_off").get<std::vector<int64_t>>()};
      all.add(of_chunk, examples);
      input.add(found.at("digest").get<std::string>());
      before += of_chunk.lines;
      prepared_.parts.push_back(of_chunk.samples);
    }
    prepared_.lines = all.counts().lines;
    prepared_.malformed = all.counts().malformed;
    prepared_.input = to_string(input.finish());
    for (const std::string& line :
         all.warnings(config_.malformed.limit, prepared_.schema.numeric)) {
      options_.tell(line);
    }
    if (all.counts().samples == 0) {
      throw IoError(fmt::format("{}: there are no samples", inputs_[0]));
    }
    tell_rate("counted", prepared_.lines, start);
    const std::string path = join_path(folder_, kDictionaryFile);
    if (prepared_.has_dictionary && !files_.exists(path)) {
      std::vector<FieldDictionary> fields(prepared_.schema.fields.size());
      if (!run_all(pool_, fields.size(), stop_, [&](size_t field) {
            fields[field] = merge_counts(counts, field, config_.ids.min_count);
          })) {
        return false;
      }
      write_dictionary(files_, path, fields);
    }
    ids_ = ids_of_prepared(files_, folder_, prepared_);
    for (size_t f = 0; f < prepared_.schema.fields.size(); ++f) {
      prepared_.schema.fields[f].rows = ids_->rows(f);
    }
    return true;
  }

  // The values of each field, ascending, with how often they come.
  void count_chunk(size_t chunk) const {
    if (files_.exists(counts_path(chunk))) {
      return;
    }
    std::vector<std::vector<uint64_t>> values(
        prepared_.has_dictionary ? prepared_.schema.fields.size() : 0);
    Json examples = Json::array();
    const LineCounts found = for_samples_of(
        chunk,
        [&](const TextSample& sample) {
          for (size_t f = 0; f < values.size(); ++f) {
            values[f].push_back(sample.values[f]);
          }
        },
        [&](const Malformed& line) {
          if (examples.size() < AllLines::kShown) {
            examples.push_back({{"line", line.line}, {"why", line.why}});
          }
        });
    const Json json = {{"lines", found.lines},
                       {"samples", found.samples},
                       {"malformed", found.malformed},
                       {"third_labels", found.third_labels},
                       {"cut_off", found.cut_off},
                       {"examples", examples},
                       {"digest", to_string(hash_bytes(bytes_of(chunk)))}};
    write_counts(files_, counts_path(chunk), std::move(values),
                 {{"found", json.dump(-1, ' ', false, Json::error_handler_t::replace)}});
  }

  // The second pass.
  bool write_samples() {
    const auto start = std::chrono::steady_clock::now();
    if (!run_all(pool_, chunks_.size(), stop_, [&](size_t chunk) { write_chunk(chunk); })) {
      return false;
    }
    tell_rate("wrote the samples of", prepared_.lines, start);
    return true;
  }

  void write_chunk(size_t chunk) const {
    const std::string path = join_path(folder_, part_name(chunk));
    if (files_.exists(path)) {
      return;
    }
    const bool is_wide = !prepared_.has_dictionary &&
                         (prepared_.buckets == 0 ||
                          prepared_.buckets > uint64_t{std::numeric_limits<int32_t>::max()});
    std::vector<uint64_t> wide;
    std::vector<uint32_t> narrow;
    std::vector<float> numeric;
    std::vector<uint8_t> labels;
    for_samples_of(
        chunk,
        [&](const TextSample& sample) {
          labels.push_back(sample.label > 0 ? 1 : 0);
          numeric.insert(numeric.end(), sample.numeric.begin(), sample.numeric.end());
          for (size_t f = 0; f < sample.values.size(); ++f) {
            const uint64_t id = ids_->id(f, sample.values[f]);
            if (is_wide) {
              wide.push_back(id);
            } else {
              narrow.push_back(static_cast<uint32_t>(id));
            }
          }
        },
        [](const Malformed&) {});
    const int64_t samples = std::ssize(labels);
    const int64_t fields = std::ssize(prepared_.schema.fields);
    SafetensorsWriter writer(
        files_, path,
        {{"ids", is_wide ? Dtype::kI64 : Dtype::kI32, {samples, fields}},
         {"numeric", Dtype::kF32, {samples, std::ssize(prepared_.schema.numeric)}},
         {"label", Dtype::kU8, {samples}}});
    for (const TensorEntry& entry : writer.entries()) {
      writer.append(entry.name, entry.name == "ids"       ? is_wide ? std::as_bytes(std::span(wide))
                                                                    : std::as_bytes(std::span(narrow))
                                      : entry.name == "numeric" ? std::as_bytes(std::span(numeric))
                                                          : std::as_bytes(std::span(labels)));
    }
    writer.finish();
  }

  void tell_rate(const char* did, int64_t lines,
                 std::chrono::steady_clock::time_point start) const {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    options_.tell(fmt::format("{} {} lines in {:.1f} s, {:.0f} a second", did, lines, seconds,
                              static_cast<double>(lines) / seconds));
  }

  FileSystem& files_;
  const DataConfig& config_;
  const YamlNode& tree_;
  const PreprocessOptions& options_;
  const std::atomic<bool>& stop_;
  std::string folder_, work_;
  CsvConfig csv_;
  ThreadPool pool_;
  std::vector<std::string> inputs_;
  std::vector<std::unique_ptr<MappedFile>> mapped_;
  std::vector<std::string_view> texts_;
  std::vector<TextColumns> columns_;  // of each input
  std::vector<TextChunk> chunks_;
  std::shared_ptr<const FieldIds> ids_;
  Prepared prepared_;
};

}  // namespace

Preprocessed preprocess(FileSystem& files, const DataConfig& config, const YamlNode& tree,
                        const PreprocessOptions& options, const std::atomic<bool>& stop) {
  if (config.format == DataFormat::kSynthetic) {
    config_fail(tree, "data.format", "synthetic samples are made as they are read");
  }
  if (!config.prepared) {
    config_fail(tree, "data.prepared", "name the folder that is to be made");
  }
  if (!config.csv.bags.empty()) {
    config_fail(tree, "data.csv.bags",
                "preprocessed samples have one id a field; without data.prepared the text is read "
                "into memory, bags and all");
  }
  return Preprocess(files, config, tree, options, stop).run();
}

}  // namespace mstrain::recommender
