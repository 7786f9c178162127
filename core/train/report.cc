#include "core/train/report.h"

#include "core/base/error.h"
#include "core/train/report_data.h"

namespace mstrain {
namespace {

// For text inside <script>: no tag may end it.
std::string script_safe(const std::string& json) {
  std::string out;
  for (const char c : json) {
    out += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return out;
}

std::string html_safe(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string page(std::string_view title, const OrderedJson& data, std::string_view more_script) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{} · mstrain</title>\n<style>{}</style>\n</head>\n<body>\n{}\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>",
      html_safe(title), kReportStyle, kReportBody, script_safe(print_lossy(data)));
  for (const char* script :
       {kReportChartScript, kReportProfileScript, kReportLayersScript, kReportAgentsScript,
        kReportSweepScript, kReportRunsScript, kReportScript}) {
    out += script;
  }
  out += more_script;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace

std::string report_html(FileSystem& files, std::span<const std::string> run_directories,
                        const OrderedJson& sweep) {
  const OrderedJson data = report_data(files, run_directories, sweep);
  std::string title;
  for (const OrderedJson& run : data["runs"]) {
    title += (title.empty() ? "" : ", ") + run["name"].get<std::string>();
  }
  return page(sweep.is_null() ? title : sweep["name"].get<std::string>(), data, "");
}

std::string live_html() { return page("Runs", nullptr, kReportLiveScript); }

}  // namespace mstrain
