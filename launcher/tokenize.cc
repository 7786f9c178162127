#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/same_file.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/text_check.h"
#include "core/data/tokenize_files.h"
#include "core/train/numbers.h"
#include "launcher/commands.h"

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

std::string tokenizer_beside(const std::string& output) { return output + ".tokenizer.json"; }

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

int tokenize(const Usage& usage, Arguments arguments, const std::atomic<bool>& stop) {
  std::optional<std::string> name;
  std::vector<std::string> inputs;
  bool binary = false;
  TokenizeJob job;
  std::optional<std::string> output;
  const std::vector<Option> options{
      text_option("--tokenizer", "X", name, "a tokenizer's file or folder, char or byte"),
      {"--input", "F", [&](const std::string& text) { inputs.push_back(text); },
       "a text file, JSON lines, a folder or a pattern; once for each"},
      text_option("--output", "F", output, "the file of ids; - is standard output"),
      {"--format", "FORMAT", [&](const std::string& value) { job.format = format_of(value); },
       "nanogpt (default), llmc, megatron or jsonl"},
      flag("--add-special", job.add_special, "special tokens around each document"),
      flag("--binary", binary,
           "bytes of any kind, as of programs; else what is no text is refused")};
  if (!parse_options(usage, arguments, options)) {
    return kDone;
  }
  required(name, "--tokenizer X");
  if (inputs.empty()) {
    throw ConfigError("--input F is missing");
  }
  job.output = required(output, "--output F");
  if (job.output != "-") {
    job.output = replaced_file(job.output);
  }
  FileSystem& files = real_files();
  std::set<std::string> seen;
  for (const std::string& input : inputs) {
    for (SourceFile& source : find_source_files(files, input)) {
      refuse_twice(seen, source, "--input", input);
      job.sources.push_back(std::move(source));
    }
  }
  for (const SourceFile& source : job.sources) {
    refuse_same_file(source.path, job.output, "--output");
    if (*name == "char") {
      refuse_same_file(source.path, tokenizer_beside(job.output), "--output");
    }
  }
  if (!binary) {
    check_is_text(files, job.sources, "a pattern as 'text/**/*.txt' chooses files by their endings",
                  "what is compressed must be unpacked, --binary takes bytes of any kind");
  }
  check_token_output(files, job.output, job.format);
  if (*name == "char") {
    job.tokenizer = std::make_shared<CharTokenizer>(characters_of(job.sources));
  } else {
    job.tokenizer = load_tokenizer(files, *name);
  }
  if (const SpecialIds special = job.tokenizer->special();
      job.add_special && special.before.empty() && special.after.empty()) {
    fmt::print(stderr,
               "--add-special adds nothing: {} names no token that stands before or after a "
               "document\n",
               *name);
  }
  Meter meter;
  job.report = [&](const TokenizeProgress& progress) { meter(progress); };
  TokenizeProgress progress;
  const HeedInterrupts heeds;
  const bool done = tokenize_files(files, job, stop, progress);
  meter.print(progress);
  if (!done) {
    fmt::print(stderr, "interrupted; the same command goes on\n");
    return kInterrupted;
  }
  // Not before: an interrupted run leaves no text in a folder that is its input, and ids of an earlier one keep theirs.
  if (*name == "char" && job.output != "-") {
    const std::string beside = tokenizer_beside(job.output);
    write_file_atomic(files, beside, job.tokenizer->to_json());
    fmt::print(stderr, "{}: the tokenizer of these ids\n", beside);
  }
  return kDone;
}

}  // namespace mstrain::launcher
