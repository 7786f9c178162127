#include "launcher/tokenize.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/tokenize_files.h"
#include "core/train/numbers.h"
#include "launcher/arguments.h"

namespace mstrain::launcher {
namespace {

constexpr double kSecondsBetweenLines = 2;

double seconds_now() { return static_cast<double>(nanoseconds_now()) * 1e-9; }

TokenFormat format_of(const std::string& name) {
  const auto found = std::find(kTokenFormatNames.begin(), kTokenFormatNames.end(), name);
  if (found == kTokenFormatNames.end()) {
    throw ConfigError(fmt::format("--format: expected nanogpt, llmc, megatron or jsonl, found {}{}",
                                  name, did_you_mean(name, kTokenFormatNames)));
  }
  return static_cast<TokenFormat>(found - kTokenFormatNames.begin());
}

// Lines for people on standard error.
class Meter {
 public:
  void operator()(const TokenizeProgress& progress) {
    if (seconds_now() - last_ >= kSecondsBetweenLines) {
      last_ = seconds_now();
      print(progress);
    }
  }
  void print(const TokenizeProgress& progress) {
    if (shown_ == progress.position) {
      return;
    }
    shown_ = progress.position;
    const double taken = std::max(1e-9, seconds_now() - begin_);
    const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    const int64_t own = progress.bytes - progress.resumed_bytes;
    fmt::print(stderr, "{:.1f} of {:.1f} MB, {} tokens, {} documents, {:.1f} MB/s\n",
               megabytes(progress.bytes), megabytes(progress.total_bytes),
               grouped(progress.position.tokens), grouped(progress.position.documents),
               megabytes(own) / taken);
  }

 private:
  double begin_ = seconds_now();
  double last_ = begin_;
  std::optional<TokenPosition> shown_;
};

}  // namespace

int tokenize(std::span<const std::string> arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> name;
  std::optional<std::string> input;
  TokenizeJob job;
  const auto text = [](std::optional<std::string>& out) {
    return [&out](const std::string& value) { out = value; };
  };
  const std::vector<Option> options{
      {"--tokenizer", "X", text(name)},
      {"--input", "F", text(input)},
      {"--output", "F", [&](const std::string& value) { job.output = value; }},
      {"--format", "FORMAT", [&](const std::string& value) { job.format = format_of(value); }},
      {"--add-special", "", [&](const std::string&) { job.add_special = true; }}};
  const std::vector<std::string> rest = parse_arguments(arguments, options);
  if (!rest.empty()) {
    throw ConfigError(fmt::format("{}: is not expected here; see mstrain --help", rest.front()));
  }
  if (!name || !input || job.output.empty()) {
    throw ConfigError(fmt::format("{} is missing", !name    ? "--tokenizer X"
                                                   : !input ? "--input F"
                                                            : "--output F"));
  }
  FileSystem& files = real_files();
  job.sources = find_source_files(files, *input);
  if (*name == "char") {
    job.tokenizer = std::make_shared<CharTokenizer>(characters_of(job.sources));
    if (job.output != "-") {
      const std::string beside = job.output + ".tokenizer.json";
      write_file_atomic(files, beside, job.tokenizer->to_json());
      fmt::print(stderr, "{}: the tokenizer of these ids\n", beside);
    }
  } else {
    job.tokenizer = load_tokenizer(files, *name);
  }
  Meter meter;
  job.report = [&](const TokenizeProgress& progress) { meter(progress); };
  TokenizeProgress progress;
  const bool done = tokenize_files(files, job, stop, progress);
  meter.print(progress);
  if (!done) {
    fmt::print(stderr, "interrupted; the same command goes on\n");
    return 130;
  }
  return 0;
}

}  // namespace mstrain::launcher
