// One HTML page with the curves of one or several runs, light and dark: self-contained, with its data in it and no network or
// further files; or live, when it asks `mstrain watch` for them.
#pragma once

#include <span>
#include <string>

#include "core/base/files.h"
#include "core/base/json.h"

namespace mstrain {

// Of run_data() of each directory, which says what is left out and what is thrown.
// `sweep`: what sweep.json holds of the sweep that the runs are of, or null.
std::string report_html(FileSystem& files, std::span<const std::string> run_directories,
                        const OrderedJson& sweep = nullptr);

// The same page without data: it asks for runs.json and data.json beside it, again and again.
std::string live_html();

// The page's parts, in the order in which they stand in it.
extern const char* const kReportStyle;
extern const char* const kReportBody;
extern const char* const kReportChartScript;
extern const char* const kReportProfileScript;
extern const char* const kReportLayersScript;
extern const char* const kReportAgentsScript;
extern const char* const kReportSweepScript;
extern const char* const kReportRunsScript;
extern const char* const kReportScript;
extern const char* const kReportLiveScript;  // of the live page alone

}  // namespace mstrain
