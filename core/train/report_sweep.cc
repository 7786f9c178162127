// The report's section on a sweep: parallel coordinates, one line a run from value to value to its result, and the table of runs.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportSweepScript = R"js("use strict";
const drawSweep = sweep => {
  const section = $("sweep");
  section.hidden = !sweep;
  if (!sweep) return;
  const isNumber = v => typeof v === "number", best = sweep.larger_is_better ? Math.max : Math.min;
  const done = sweep.runs.filter(r => finite(r.value)), values = done.map(r => r.value), top = values.length ? best(...values) : null;
  const text = v => isNumber(v) ? short(v) : v === undefined || v === null ? "–" : String(v);
  // From 0, the best, to 1.
  const rank = new Map([...done].sort((a, b) => sweep.larger_is_better ? b.value - a.value : a.value - b.value).map((r, i) => [r.id, done.length > 1 ? i / (done.length - 1) : 0]));
  const shade = r => `color-mix(in srgb, var(--c1) ${Math.round(100 * (1 - rank.get(r.id)))}%, var(--c0))`;

  const host = $("coordinates"), width = Math.max(host.clientWidth, 320), height = 280, pad = { left: 70, right: 70, top: 30, bottom: 14 };
  const axes = [...sweep.keys, sweep.metric].map((name, i, all) => {
    const isResult = i === all.length - 1, of = r => isResult ? r.value : r.values[name];
    const found = done.map(of), numeric = found.every(isNumber) && found.length > 0;
    const lo = numeric ? Math.min(...found) : 0, hi = numeric ? Math.max(...found) : 0;
    const log = numeric && !isResult && lo > 0 && hi / lo >= 20, f = log ? Math.log : v => v;
    const words = [...new Set(found.map(text))];
    const share = v => numeric ? (hi > lo ? (f(v) - f(lo)) / (f(hi) - f(lo)) : 0.5) : words.length > 1 ? words.indexOf(text(v)) / (words.length - 1) : 0.5;
    const ticks = !numeric ? words : hi > lo ? (log ? decades(lo, hi) : niceTicks(lo, hi, 4)) : [lo];
    return { name, of, x: pad.left + i / (all.length - 1 || 1) * (width - pad.left - pad.right), y: v => height - pad.bottom - share(v) * (height - pad.top - pad.bottom), ticks };
  });
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${done.length} runs over ${sweep.keys.join(", ")} and their ${sweep.metric}` });
  for (const axis of axes) {
    root.append(svg("line", { class: "axis", x1: axis.x, x2: axis.x, y1: pad.top, y2: height - pad.bottom }), svg("text", { x: axis.x, y: 14, "text-anchor": "middle" }, axis.name));
    for (const t of axis.ticks) root.append(svg("text", { x: axis.x - 6, y: axis.y(t) + 4, "text-anchor": "end" }, text(t)));
  }
  for (const r of [...done].sort((a, b) => rank.get(b.id) - rank.get(a.id))) {
    const line = svg("path", { class: "run", d: axes.map((axis, i) => `${i ? "L" : "M"}${axis.x.toFixed(1)} ${axis.y(axis.of(r)).toFixed(1)}`).join(""), fill: "none", stroke: shade(r), "stroke-width": r.value === top ? 2.6 : 1.4, opacity: r.value === top ? 1 : 0.75 });
    line.append(svg("title", {}, `${r.id}\n${sweep.keys.map(k => `${k}: ${text(r.values[k])}`).join("\n")}\n${sweep.metric}: ${r.value}`));
    root.append(line);
  }
  host.replaceChildren(done.length ? root : el("p", { class: "note" }, "No run has a result yet."));
  $("sweep-about").textContent = `${sweep.method}, ${done.length} of ${sweep.runs.length} runs have a result` + (top === null ? "" : `, the best ${sweep.metric} is ${top.toPrecision(5)}`);

  const order = [...sweep.runs].sort((a, b) => (rank.get(a.id) ?? 2) - (rank.get(b.id) ?? 2));
  const head = ["run", ...sweep.keys, sweep.metric, "step", "status"].map(t => el("th", {}, t));
  $("sweep-table").replaceChildren(el("table", { class: "figures" }, el("tr", {}, ...head), ...order.map(r => el("tr", { class: r.value === top && top !== null ? "last" : "" },
    el("td", {}, r.id), ...sweep.keys.map(k => el("td", {}, text(r.values[k]))), el("td", {}, finite(r.value) ? r.value.toPrecision(6) : "–"), el("td", {}, group(r.step || 0)), el("td", {}, r.status + (r.reason ? ": " + r.reason : ""))))));
};
)js";

}  // namespace mstrain
