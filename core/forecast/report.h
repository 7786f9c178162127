// Forecasts as text and as JSON.
#pragma once

#include "core/base/json.h"
#include "core/forecast/search.h"

namespace mstrain {

// fits, peak_bytes_per_rank, memory, step_seconds, tokens_per_second, tokens_per_second_per_device,
// model_flops_utilization, breakdown. Bytes and seconds.
OrderedJson to_json(const Forecast& forecast, const Cluster& cluster);

// A table for people; `unit`: "token".
std::string describe(const Forecast& forecast, const Cluster& cluster, const std::string& unit);

// A line each: layout, memory, rate, and why it lost.
std::string describe(const SearchResult& result, const std::string& unit);

}  // namespace mstrain
