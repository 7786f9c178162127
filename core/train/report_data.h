// What the page of core/train/report.h shows, as JSON: its script reads it from the page itself, or asks `mstrain watch` for it.
#pragma once

#include <span>
#include <string>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain {

// Of an agent's run: a row with `step` for each evaluation that was looked at. Pictures, actions, what values were worth.
inline constexpr const char* kEvaluationsFile = "evaluations.jsonl";

// Of one run directory: curves, configuration, run.json, samples, profile, log, and what it began from. What is missing is
// left out. Throws IoError where a file is damaged, and where the folder is no run directory.
OrderedJson run_data(FileSystem& files, const std::string& directory);

// {"runs": [...], "sweep": ...} of several, as run_data() has them. `sweep`: what its sweep.json holds, or null.
OrderedJson report_data(FileSystem& files, std::span<const std::string> directories,
                        const OrderedJson& sweep = nullptr);

// One line of JSON; bytes of a log or a sample that are no UTF-8 are replaced.
std::string print_lossy(const OrderedJson& json);

// The name of a run in `data`, as run_data() has it: that of its configuration, or its folder's.
std::string run_name(const OrderedJson& data);

// Whether the folder holds what a run writes.
bool is_run_directory(FileSystem& files, const std::string& directory);

}  // namespace mstrain
