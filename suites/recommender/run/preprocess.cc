#include "suites/recommender/data/preprocess.h"
#include "suites/recommender/data/prepared.h"

#include "core/base/error.h"
#include "core/base/processors.h"
#include "suites/recommender/run/preprocess.h"
#include "suites/recommender/run/recommender_run.h"

namespace mstrain::recommender {
namespace {

int run_preprocess(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> config;
  const Option options[] = {text_option("--config", "FILE", config, "whose section data is meant")};
  const auto overrides = parse_arguments(usage, arguments, options);
  if (!overrides) {
    return kDone;
  }
  warn_of_repeated(*overrides);
  const YamlNode tree = load_config(required(config, "--config"), *overrides);
  const std::unique_ptr<ModelRun> read = read_run(tree);
  const auto* const run = dynamic_cast<const RecommenderRun*>(read.get());
  if (run == nullptr) {
    throw ConfigError(fmt::format(
        "{}: preprocess is for recommenders; mstrain tokenize makes ids of text", *config));
  }
  const PreprocessOptions how{.threads = make_context(run->train).num_threads(),
                              .tell = [](const std::string& line) { fmt::print("{}\n", line); }};
  switch (preprocess(real_files(), run->data, tree, how, stop)) {
    case Preprocessed::kInterrupted:
      fmt::print("{}: interrupted; the same command goes on\n", *run->data.prepared);
      return kInterrupted;
    case Preprocessed::kWasDone:
      fmt::print("{}: is there already, of the same files and columns\n", *run->data.prepared);
      return kDone;
    case Preprocessed::kDone: break;
  }
  const auto samples = open_samples(real_files(), run->data, tree, 1);
  uint64_t rows = 0;
  for (const FieldSpec& field : samples.train->schema().fields) {
    rows += field.rows;
  }
  fmt::print("{}: {} samples, {} fields with {}, {} numbers\n", *run->data.prepared,
             samples.train->samples() + (samples.valid ? samples.valid->samples() : 0),
             samples.train->schema().fields.size(),
             rows > 0 ? fmt::format("{} ids", rows) : "hashes of 64 bits for ids",
             samples.train->schema().numeric.size());
  return kDone;
}

void print_prepared(FileSystem& files, const std::string& path, std::FILE* out) {
  const Prepared prepared = read_prepared(files, path);
  int64_t samples = 0;
  for (const int64_t part : prepared.parts) {
    samples += part;
  }
  fmt::print(
      out,
      "{}: samples of mstrain preprocess, {} in {} parts, of {} lines of which {} are left out\n",
      path, samples, prepared.parts.size(), prepared.lines, prepared.malformed);
  for (const std::string& name : prepared.schema.numeric) {
    fmt::print(out, "  {}: numbers\n", name);
  }
  for (const FieldSpec& field : prepared.schema.fields) {
    fmt::print(out, "  {}: {}\n", field.name,
               field.rows > 0 ? fmt::format("{} ids", field.rows) : "hashes of 64 bits for ids");
  }
}

}  // namespace

FolderKind prepared_folder() {
  return {kPreparedFile, "what mstrain preprocess makes", print_prepared};
}

Command preprocess_command() {
  return {{"preprocess", "--config FILE [key.path=value ...]",
           "text of a recommender's data.train to data.prepared, which training reads; after a "
           "kill the same command goes on"},
          run_preprocess};
}

}  // namespace mstrain::recommender
