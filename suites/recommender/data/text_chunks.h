// Files of text cut into pieces of whole lines, that several threads read at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "suites/recommender/data/text_columns.h"

namespace mstrain::recommender {

// Lines that begin at bytes [begin, end) of a file.
struct TextChunk {
  size_t file = 0;
  uint64_t begin = 0, end = 0;
};

// Pieces of nearly `bytes` each; a file has one at least.
std::vector<TextChunk> chunks_of(const std::vector<uint64_t>& file_sizes, uint64_t bytes);

struct LineCounts {
  int64_t lines = 0, samples = 0, malformed = 0;
};
struct Malformed {
  int64_t line = 0;  // of the chunk, from 0
  std::string why;
};

// Calls `use` for each sample of the chunk of `text`, the whole file, and `refused` for what is none. Empty lines, and a first one that
// names the columns, are neither.
LineCounts for_samples(std::string_view text, const TextChunk& chunk, bool header,
                       const TextColumns& columns,
                       const std::function<void(const TextSample&)>& use,
                       const std::function<void(const Malformed&)>& refused);

}  // namespace mstrain::recommender
