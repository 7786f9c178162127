// From text files to a file of ids, of any size in bounded memory: what `mstrain tokenize` does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/data/source_files.h"
#include "core/data/token_writer.h"
#include "core/data/tokenizer.h"

namespace mstrain {

struct TokenizeProgress {
  int64_t bytes = 0;          // of the input, done
  int64_t resumed_bytes = 0;  // of them by an earlier run
  int64_t total_bytes = 0;
  TokenWriter::Position position;
};

struct TokenizeJob {
  std::vector<SourceFile> sources;  // one after the other; text, or JSON lines with `text`
  std::string output;               // "-": standard output
  TokenFormat format = TokenFormat::kNanogpt;
  bool add_special = false;  // Tokenizer::special() around each document
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t bytes_between_saves = int64_t{64} << 20;                // of the input
  std::function<void(const TokenizeProgress&)> report = nullptr;  // after each mebibyte or so
};

// A document is a text file, or a line of a JSON-lines file; jsonl writes one array for each.
//
// Whoever is stopped (`stop`, or killed) leaves .output.partial and .output.progress; the same job
// goes on from there, after checking that inputs, tokenizer and options are the same and that both
// files read as they did, and gives the same bytes as one that was never stopped. Anything else in
// their place is dropped and the job begins anew. To standard output nothing is resumed. Throws
// IoError where another process, or thread, is at work at the same output; .output.lock tells.
//
// Memory: a few mebibytes, but as much as the longest JSON line or, of text, the longest run
// without a place to cut (one class of characters for GPT-2's pattern). Returns false where it was
// stopped. Throws IoError naming the file and offset of what cannot be encoded.
bool tokenize_files(FileSystem& files, const TokenizeJob& job, const std::atomic<bool>& stop,
                    TokenizeProgress& progress);

// The distinct characters of text files and JSON lines, ascending: what a CharTokenizer is made of.
// Throws IoError where they are not UTF-8.
std::vector<char32_t> characters_of(const std::vector<SourceFile>& sources);

}  // namespace mstrain
