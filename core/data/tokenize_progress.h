// Where `mstrain tokenize` stands, kept beside its output so that a run that was stopped or killed
// is followed by another.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/files.h"
#include "core/data/tokenize_files.h"
#include "core/data/tokenizer.h"

namespace mstrain {

struct TokenizePlace {
  size_t source = 0;
  int64_t offset = 0;  // in the source
  int64_t line = 0;    // lines before it, of JSON lines
  bool in_document = false;
  EncodeState state;
  TokenPosition position;
};

std::string progress_path(const TokenizeJob& job);

// Both `place` and the output's partial file must be durable up to it. Throws IoError.
void save_progress(FileSystem& files, const TokenizeJob& job, const TokenizePlace& place);

// Where an earlier run of the same job left off; none: there was none, it is damaged, or inputs,
// tokenizer, options or what lies before that place have changed.
std::optional<TokenizePlace> load_progress(FileSystem& files, const TokenizeJob& job);

}  // namespace mstrain
