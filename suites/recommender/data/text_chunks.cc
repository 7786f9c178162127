#include "suites/recommender/data/text_chunks.h"

#include <algorithm>

namespace mstrain::recommender {
namespace {

// Where the first line that does not begin before `at` begins.
size_t line_from(std::string_view text, uint64_t at) {
  if (at == 0 || at >= text.size()) {
    return std::min<size_t>(at, text.size());
  }
  const size_t end = text.find('\n', at - 1);
  return end == std::string_view::npos ? text.size() : end + 1;
}

}  // namespace

std::vector<TextChunk> chunks_of(const std::vector<uint64_t>& file_sizes, uint64_t bytes) {
  std::vector<TextChunk> out;
  for (size_t file = 0; file < file_sizes.size(); ++file) {
    const uint64_t pieces = std::max<uint64_t>(1, (file_sizes[file] + bytes - 1) / bytes);
    for (uint64_t i = 0; i < pieces; ++i) {
      out.push_back({file, file_sizes[file] / pieces * i,
                     i + 1 == pieces ? file_sizes[file] : file_sizes[file] / pieces * (i + 1)});
    }
  }
  return out;
}

LineCounts for_samples(std::string_view text, const TextChunk& chunk, bool header,
                       const TextColumns& columns,
                       const std::function<void(const TextSample&)>& use,
                       const std::function<void(const Malformed&)>& refused) {
  const size_t begin = line_from(text, chunk.begin);
  std::string_view rest = text.substr(begin, line_from(text, chunk.end) - begin);
  bool is_names = header && chunk.begin == 0;
  LineCounts counts;
  TextSample sample;
  for (; !rest.empty(); ++counts.lines) {
    const std::string_view line = next_line(rest);
    if (line.empty()) {
      continue;
    }
    if (is_names) {
      is_names = false;
      continue;
    }
    if (std::string why = columns.parse(line, sample); !why.empty()) {
      ++counts.malformed;
      refused({counts.lines, std::move(why)});
      continue;
    }
    ++counts.samples;
    use(sample);
  }
  return counts;
}

}  // namespace mstrain::recommender
