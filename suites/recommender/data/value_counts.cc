#include "suites/recommender/data/value_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <queue>

#include "core/base/error.h"

namespace mstrain::recommender {
namespace {

std::string counted_values(size_t field) { return fmt::format("{}.value", field); }
std::string counted_times(size_t field) { return fmt::format("{}.times", field); }

template <class T>
T element(const std::byte* of, size_t index) {
  T out;
  std::memcpy(&out, of + index * sizeof out, sizeof out);
  return out;
}

// Where one file's values of a field have been read to.
struct Cursor {
  const std::byte* values;
  const std::byte* times;
  size_t at = 0, count = 0;
  uint64_t value() const { return element<uint64_t>(values, at); }
};

}  // namespace

void write_counts(FileSystem& files, const std::string& path,
                  std::vector<std::vector<uint64_t>> values,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<std::vector<uint32_t>> times(values.size());
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (size_t f = 0; f < values.size(); ++f) {
    std::vector<uint64_t>& of_field = values[f];
    std::sort(of_field.begin(), of_field.end());
    size_t distinct = 0;
    for (size_t i = 0; i < of_field.size(); ++i) {
      if (i == 0 || of_field[i] != of_field[distinct - 1]) {
        of_field[distinct++] = of_field[i];
        times[f].push_back(0);
      }
      ++times[f].back();
    }
    of_field.resize(distinct);
    const std::vector<int64_t> shape{static_cast<int64_t>(distinct)};
    tensors.push_back({counted_values(f), Dtype::kI64, shape});
    tensors.push_back({counted_times(f), Dtype::kU32, shape});
  }
  SafetensorsWriter writer(files, path, tensors, metadata);
  for (const TensorEntry& entry : writer.entries()) {
    const size_t f = std::stoul(entry.name);
    writer.append(entry.name, entry.dtype == Dtype::kI64 ? std::as_bytes(std::span(values[f]))
                                                         : std::as_bytes(std::span(times[f])));
  }
  writer.finish();
}

FieldDictionary merge_counts(const std::vector<SafetensorsFile>& counts, size_t field,
                             int64_t min_count) {
  std::vector<Cursor> cursors;
  using Next = std::pair<uint64_t, size_t>;  // value, cursor
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (const SafetensorsFile& file : counts) {
    const TensorEntry& values = file.at(counted_values(field));
    const TensorEntry& times = file.at(counted_times(field));
    if (values.dtype != Dtype::kI64 || times.dtype != Dtype::kU32 || values.shape.size() != 1 ||
        values.shape != times.shape) {
      throw IoError(
          fmt::format("{}: {} and {} are no counts", file.name(), values.name, times.name));
    }
    cursors.push_back({file.data(values).data(), file.data(times).data(), 0,
                       static_cast<size_t>(values.shape[0])});
    if (cursors.back().count > 0) {
      next.emplace(cursors.back().value(), cursors.size() - 1);
    }
  }
  std::vector<std::pair<uint64_t, uint64_t>> kept;  // times, value
  while (!next.empty()) {
    const uint64_t value = next.top().first;
    uint64_t times = 0;
    while (!next.empty() && next.top().first == value) {
      const size_t which = next.top().second;
      Cursor& cursor = cursors[which];
      next.pop();
      times += element<uint32_t>(cursor.times, cursor.at);
      if (++cursor.at < cursor.count) {
        next.emplace(cursor.value(), which);
      }
    }
    if (times >= static_cast<uint64_t>(min_count)) {
      kept.emplace_back(times, value);
    }
  }
  check(kept.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()),
        "field {} has {} values; raise data.ids.min_count", field, kept.size());
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::pair<uint64_t, uint32_t>> named;
  for (size_t i = 0; i < kept.size(); ++i) {
    named.emplace_back(kept[i].second, static_cast<uint32_t>(i + 1));
  }
  std::sort(named.begin(), named.end());
  FieldDictionary out;
  for (const auto& [value, id] : named) {
    out.values.push_back(value);
    out.ids.push_back(id);
  }
  return out;
}

}  // namespace mstrain::recommender
