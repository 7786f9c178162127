// Results of a replay for people: a table, and a page with a chart.
#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "embedding_cache/replay.h"

namespace mstrain::embedding_cache {
namespace {

struct Predicted {
  double misses;
  double read_seconds;
  double step_seconds;  // 0: compute is unknown
};

Predicted predict(const ReplayResult& r, const ReplayCost& cost) {
  const double misses =
      r.batches == 0 ? 0 : static_cast<double>(r.ids - r.id_hits) / static_cast<double>(r.batches);
  const double reads = misses / cost.reads_per_second;
  return {misses, reads, cost.compute_seconds > 0 ? std::max(cost.compute_seconds, reads) : 0};
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string print_replay(const std::vector<ReplayResult>& results, const ReplayCost& cost) {
  std::string out = fmt::format("{:<12}{:>12}{:>12}{:>12}{:>10}{:>14}{:>12}{:>10}{:>10}\n",
                                "policy", "rows in RAM", "RAM MiB", "hits/lookup", "hits/id",
                                "misses/batch", "MiB/batch", "read s", "step s");
  for (const ReplayResult& r : results) {
    const Predicted p = predict(r, cost);
    const auto bytes = static_cast<double>(cost.record_bytes);
    out += fmt::format(
        "{:<12}{:>12}{:>12.1f}{:>11.2f}%{:>9.2f}%{:>14.0f}{:>12.2f}{:>10.3f}{:>10}\n", r.policy,
        r.host_rows, static_cast<double>(r.host_rows) * (bytes + 15.8) / (1 << 20),
        100 * r.hits_per_lookup(), 100 * r.hits_per_id(), p.misses, p.misses * bytes / (1 << 20),
        p.read_seconds, p.step_seconds > 0 ? fmt::format("{:.3f}", p.step_seconds) : "-");
  }
  return out;
}

std::string replay_page(const std::vector<ReplayResult>& results, const ReplayCost& cost,
                        const std::string& title) {
  constexpr double kWidth = 640;
  constexpr double kHeight = 320;
  constexpr double kLeft = 50;
  constexpr double kBottom = 30;
  const char* colours[] = {"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad"};
  std::map<std::string, std::vector<const ReplayResult*>> by_policy;
  double most = 1;
  for (const ReplayResult& r : results) {
    by_policy[r.policy].push_back(&r);
    most = std::max(most, static_cast<double>(r.host_rows));
  }
  std::string chart = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"hit rates by size\">\n",
      kWidth + 130, kHeight + kBottom + 10, kWidth + 130);
  for (int percent = 0; percent <= 100; percent += 20) {
    const double y = kHeight * (1 - percent / 100.0) + 5;
    chart += fmt::format(
        "<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}%</text>\n",
        kLeft, y, kWidth, y, kLeft - 6, y + 4, percent);
  }
  size_t colour = 0;
  for (auto& [policy, line] : by_policy) {
    std::sort(line.begin(), line.end(),
              [](const auto* a, const auto* b) { return a->host_rows < b->host_rows; });
    std::string points;
    double last_y = 0;
    for (const ReplayResult* r : line) {
      const double x = kLeft + (kWidth - kLeft) * static_cast<double>(r->host_rows) / most;
      last_y = kHeight * (1 - r->hits_per_lookup()) + 5;
      points += fmt::format("{:.1f},{:.1f} ", x, last_y);
      chart += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, last_y,
                           colours[colour % 4]);
    }
    chart += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n"
        "<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n",
        points, colours[colour % 4], kWidth + 8, 20 + 18 * static_cast<double>(colour),
        colours[colour % 4], escape(policy));
    ++colour;
  }
  chart += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">rows in memory (0 to {:.0f})"
      "</text>\n</svg>\n",
      (kLeft + kWidth) / 2, kHeight + kBottom, most);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}"
      "text{{font:12px sans-serif}}pre{{overflow-x:auto}}</style>\n"
      "<h1>{0}</h1>\n<p>Share of lookups whose row was in memory, by size of the host tier.</p>\n"
      "{1}<pre>{2}</pre>\n</html>\n",
      escape(title), chart, escape(print_replay(results, cost)));
}

}  // namespace mstrain::embedding_cache
