// The rows of metrics.jsonl as a table, for spreadsheets and data frames.
#pragma once

#include <span>
#include <string>

#include "core/base/json.h"

namespace mstrain {

inline constexpr const char* kMetricsTable = "metrics.csv";

// One line a row, one column for each key in the order in which keys first appear, empty where a row lacks it; what is no
// number is left out. Numbers are those of metrics.jsonl, digit for digit.
std::string metrics_csv(std::span<const Json> rows);

}  // namespace mstrain
