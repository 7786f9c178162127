#include "core/train/metrics_file.h"

#include "core/base/error.h"
#include "core/train/metrics.h"

namespace mstrain {
namespace {

// The row in `line`, or null.
Json parse_row(std::string_view line) {
  try {
    Json row = parse_json(line, kMetricsFile);
    const auto step = row.is_object() ? row.find("step") : row.end();
    if (step != row.end() && step->is_number_integer()) {
      return row;
    }
  } catch (const IoError&) {
    return nullptr;  // half a line, or none of ours
  }
  return nullptr;
}

// Calls f(line, row) for each whole row.
template <class F>
void for_each_row(std::string_view text, const F& f) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) {
      break;
    }
    const std::string_view line = text.substr(begin, end - begin);
    if (Json row = parse_row(line); !row.is_null()) {
      f(line, std::move(row));
    }
    begin = end + 1;
  }
}

}  // namespace

std::vector<Json> read_metrics(FileSystem& files, const std::string& path) {
  std::vector<Json> rows;
  if (files.exists(path)) {
    for_each_row(files.read(path),
                 [&](std::string_view, Json row) { rows.push_back(std::move(row)); });
  }
  return rows;
}

bool is_evaluation(const Json& row, std::string_view set) {
  return row.contains(of_set(kEvalLoss, set)) || row.contains(of_set(kEvalReward, set));
}

bool MetricsKept::has(const Json& row) const {
  const int64_t last = is_evaluation(row) || row.contains(kEvalReturn) ? evaluation
                       : row.contains("samples")                       ? samples
                                                                       : training;
  return row["step"].get<int64_t>() <= last;
}

MetricsFile::MetricsFile(FileSystem& files, const std::string& path, const MetricsKept& kept) {
  if (files.exists(path)) {
    const std::string text = files.read(path);
    std::string rest;
    for_each_row(text, [&](std::string_view line, const Json& row) {
      if (kept.has(row)) {
        rest.append(line).push_back('\n');
      }
    });
    if (rest != text) {
      write_file_atomic(files, path, rest);
    }
  }
  file_ = files.open(path, WriteMode::kAppend);
}

void MetricsFile::write(const OrderedJson& row) {
  file_->append(row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

}  // namespace mstrain
