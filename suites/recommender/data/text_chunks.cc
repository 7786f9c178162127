#include "suites/recommender/data/text_chunks.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

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

void LineCounts::add(const LineCounts& more) {
  lines += more.lines;
  samples += more.samples;
  malformed += more.malformed;
  third_labels += more.third_labels;
  cut_off.resize(std::max(cut_off.size(), more.cut_off.size()));
  for (size_t i = 0; i < more.cut_off.size(); ++i) {
    cut_off[i] += more.cut_off[i];
  }
}

void AllLines::add(const LineCounts& piece, std::span<const std::string> refused) {
  const size_t shown = std::min(refused.size(), kShown - shown_.size());
  shown_.insert(shown_.end(), refused.begin(), refused.begin() + static_cast<ptrdiff_t>(shown));
  counts_.add(piece);
}

std::vector<std::string> AllLines::warnings(int64_t limit,
                                            const std::vector<std::string>& numeric) const {
  const auto& [lines, samples, malformed, third_labels, cut_off] = counts_;
  const std::string shown = fmt::format("{}", fmt::join(shown_, "\n"));
  if (third_labels > 0) {
    throw IoError(
        fmt::format("{}\nlines of a third label: {} of {}; data.csv.negative names that of "
                    "label 0, * for all others than data.csv.positive",
                    shown, third_labels, lines));
  }
  if (malformed > limit) {
    throw IoError(malformed == 1 ? shown
                                 : fmt::format("{}\n{} of {} lines are no samples; "
                                               "data.malformed.limit allows {} to be left out",
                                               shown, malformed, lines, limit));
  }
  std::vector<std::string> out;
  if (malformed > 0) {
    out.push_back(fmt::format("{} left out: {}",
                              malformed == 1 ? "1 line is" : fmt::format("{} lines are", malformed),
                              shown));
  }
  std::vector<std::string> columns;
  for (size_t i = 0; i < cut_off.size(); ++i) {
    if (cut_off[i] > 0) {
      columns.push_back(fmt::format("{} ({} of {})", numeric[i], cut_off[i], samples));
    }
  }
  if (!columns.empty()) {
    out.push_back(fmt::format("negative numbers are 0 by data.csv.numeric_scale: log1p: {}",
                              fmt::join(columns, ", ")));
  }
  return out;
}

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
  counts.cut_off.resize(columns.schema().numeric.size());
  TextSample sample;
  for (; !rest.empty(); ++counts.lines) {
    const std::string_view line = next_line(rest);
    if (line.empty() && (is_names || columns.passes_over_empty_lines())) {
      continue;
    }
    if (is_names) {
      is_names = false;
      continue;
    }
    if (std::string why = columns.parse(line, sample); !why.empty()) {
      ++counts.malformed;
      counts.third_labels += sample.has_third_label ? 1 : 0;
      refused({counts.lines, std::move(why)});
      continue;
    }
    ++counts.samples;
    for (const size_t column : sample.cut_off) {
      ++counts.cut_off[column];
    }
    use(sample);
  }
  return counts;
}

}  // namespace mstrain::recommender
