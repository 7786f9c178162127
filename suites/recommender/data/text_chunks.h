// Files of text cut into pieces of whole lines, that several threads read at once.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  int64_t third_labels = 0;      // of the malformed
  std::vector<int64_t> cut_off;  // by numeric column: see TextSample

  void add(const LineCounts& more);
};
struct Malformed {
  int64_t line = 0;  // of the chunk, from 0
  std::string why;
};

// All lines of a file, or of several, added up piece by piece.
class AllLines {
 public:
  static constexpr size_t kShown = 3;

  // `refused`: the malformed lines of the piece, kShown of them or all.
  void add(const LineCounts& piece, std::span<const std::string> refused);
  const LineCounts& counts() const { return counts_; }
  // What there is to warn of. Throws IoError where more lines than `limit` are malformed, and for any third label: which of the others is
  // that of label 0 would hang on the order of the lines.
  std::vector<std::string> warnings(int64_t limit, const std::vector<std::string>& numeric) const;

 private:
  LineCounts counts_;
  std::vector<std::string> shown_;
};

// Calls `use` for each sample of the chunk of `text`, the whole file, and `refused` for what is none. A first line that names the columns is
// neither, nor are empty lines before it, or where the columns pass over them.
LineCounts for_samples(std::string_view text, const TextChunk& chunk, bool header,
                       const TextColumns& columns,
                       const std::function<void(const TextSample&)>& use,
                       const std::function<void(const Malformed&)>& refused);

}  // namespace mstrain::recommender
