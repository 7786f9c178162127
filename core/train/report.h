// One self-contained HTML page with the curves of one or several runs: no network, no further files, light and dark.
#pragma once

#include <span>
#include <string>

#include "core/base/files.h"

namespace mstrain {

// From metrics.jsonl, config.yaml, run.json and profile.json of each run directory; what is missing is left out of the page. Throws
// IoError where a folder has no metrics.jsonl and no config.yaml: it is no run directory then.
std::string report_html(FileSystem& files, std::span<const std::string> run_directories);

// The page's parts; report_html puts the data between them.
extern const char* const kReportStyle;
extern const char* const kReportBody;
extern const char* const kReportProfileScript;  // what kReportScript calls
extern const char* const kReportScript;

}  // namespace mstrain
